package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
)

func start(t *testing.T) string {
	node, err := gyro.New(config())
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Run(); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(routes(node))
	t.Cleanup(func() {
		s.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

func TestPage(t *testing.T) {
	res, err := http.Get(start(t) + "/?user=ann")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), "new WebSocket") {
		t.Errorf("%s, %v: %s", res.Status, err, body)
	}
}

func TestChat(t *testing.T) {
	address := start(t) + "/ws?user="
	ann, bob := wstest.Dial(t, address+"ann", nil), wstest.Dial(t, address+"bob", nil)
	ann.Connect("")
	ann.Subscribe("room", "")
	if p := ann.Push(); p.Join == nil || p.Join.Info.User != "ann" {
		t.Errorf("got %+v", p)
	}
	ann.Do(`"publish":{"channel":"room","data":{"text":"hello?"}}`)
	ann.Pub()

	// Who comes later reads what was said.
	bob.Connect("")
	res := bob.Subscribe("room", `"recover":true`)
	if !res.Recovered || len(res.Publications) != 1 || string(res.Publications[0].Data) != `{"text":"hello?"}` {
		t.Errorf("got %+v", res)
	}
	if p := ann.Push(); p.Join == nil || p.Join.Info.User != "bob" {
		t.Errorf("got %+v", p)
	}
	bob.Vanish()
	if p := ann.Push(); p.Leave == nil || p.Leave.Info.User != "bob" {
		t.Errorf("got %+v", p)
	}
}

func TestRules(t *testing.T) {
	c := wstest.Dial(t, start(t)+"/ws?user=eve", nil)
	c.Connect("")
	long := `"` + strings.Repeat("x", 1000) + `"`
	for _, command := range []string{
		`"subscribe":{"channel":"other"}`,
		`"publish":{"channel":"room","data":1}`, // not subscribed
	} {
		if r := c.Call(command); r.Error == nil || *r.Error != *protocol.ErrorPermissionDenied {
			t.Errorf("%s: got %v", command, r.Error)
		}
	}
	c.Subscribe("room", "")
	if r := c.Call(`"publish":{"channel":"room","data":` + long + `}`); r.Error == nil {
		t.Error("a long message was accepted")
	}
}
