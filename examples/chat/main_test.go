package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
)

func start(t *testing.T) string {
	node, err := newNode()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(routes(node, "main_test.go"))
	t.Cleanup(func() {
		s.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

// enter connects a user.
func enter(t *testing.T, address, user string) *gyrotest.Client {
	c := gyrotest.Dial(t, address+"/ws?user="+user, nil)
	c.Connect(nil)
	return c
}

func TestPages(t *testing.T) {
	address := start(t)
	for path, part := range map[string]string{"/?user=ann": "new Centrifuge(", "/centrifuge.js": "func TestPages"} {
		res, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), part) {
			t.Errorf("%s: %s, %v: %s", path, res.Status, err, body)
		}
	}
}

func TestChat(t *testing.T) {
	address := start(t)
	ann := enter(t, address, "ann")
	ann.Subscribe("room", nil)
	if who := ann.Join("room"); who.User != "ann" {
		t.Errorf("%s is here", who.User)
	}
	ann.Publish("room", `{"text":"hello?"}`)
	ann.Publication("room")

	// Who comes later reads what was said, and sees who is there.
	bob := enter(t, address, "bob")
	bob.Subscribe("room", nil)
	if who := ann.Join("room"); who.User != "bob" {
		t.Errorf("%s is here", who.User)
	}
	if h := bob.History("room", &protocol.HistoryRequest{Limit: 10}); len(h.Publications) != 1 || string(h.Publications[0].Data) != `{"text":"hello?"}` {
		t.Errorf("history: %+v", h)
	}
	if here := bob.Presence("room"); len(here) != 2 {
		t.Errorf("present: %v", here)
	}
	bob.Vanish()
	if who := ann.Leave("room"); who.User != "bob" {
		t.Errorf("%s left", who.User)
	}
}

func TestRules(t *testing.T) {
	c := enter(t, start(t), "eve")
	subscribe := &protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: "other"}}
	publish := &protocol.Command{Publish: &protocol.PublishRequest{Channel: "room", Data: []byte(`1`)}}
	presence := &protocol.Command{Presence: &protocol.PresenceRequest{Channel: "room"}}
	history := &protocol.Command{History: &protocol.HistoryRequest{Channel: "room"}}
	for _, command := range []*protocol.Command{subscribe, publish, presence, history} { // not subscribed
		if _, err := c.Try(command); !errors.Is(err, gyro.ErrorPermissionDenied) {
			t.Errorf("%+v: got %v", command, err)
		}
	}
	c.Subscribe("room", nil)
	publish.Publish.Data = []byte(`"` + strings.Repeat("x", 1000) + `"`)
	if _, err := c.Try(publish); !errors.Is(err, gyro.ErrorPermissionDenied) {
		t.Errorf("a long message: %v", err)
	}
}
