package operators

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDialogue: whatever pieces the node writes, the operator gets lines, and the node gets the commands that follow.
func TestDialogue(t *testing.T) {
	node := `{"id":1,"connect":{"client":"c","session":"s"}}
{"id":2,"subscribe":{"type":1,"phase":2,"cursor":"b","offset":7,"epoch":"e","state":[{"key":"a","data":1},{"key":"b","data":2}]}}
{}
{"id":3,"subscribe":{"type":1,"phase":1,"offset":9,"epoch":"e","publications":[{"key":"c","offset":8},{"key":"a","offset":9}]}}
{"id":4,"subscribe":{"type":1,"offset":10,"epoch":"e","publications":[{"key":"d","offset":10}]}}
{"push":{"channel":"m","pub":{"key":"a","removed":true,"offset":11}}}
{"push":{"disconnect":{"code":3001,"reason":"shutdown"}}}
`
	lines := `{"channel":"m","state":{"entries":[{"key":"a","data":1},{"key":"b","data":2}],"offset":7,"epoch":"e","more":true}}

{"channel":"m","pub":{"key":"c","offset":8}}
{"channel":"m","pub":{"key":"a","offset":9}}
{"channel":"m","pub":{"key":"d","offset":10}}
{"channel":"m","live":{"epoch":"e","offset":10}}
{"channel":"m","pub":{"key":"a","removed":true,"offset":11}}
{"disconnect":{"code":3001,"reason":"shutdown"}}
`
	commands := []string{
		`"{\"id\":3,\"subscribe\":{\"channel\":\"m\",\"type\":1,\"phase\":1,\"limit\":1000,\"offset\":7,\"epoch\":\"e\"}}"`, `"{}"`,
		`"{\"id\":4,\"subscribe\":{\"channel\":\"m\",\"type\":1,\"phase\":1,\"limit\":1000,\"offset\":9,\"epoch\":\"e\"}}"`,
	}
	for size := 1; size < len(node)+50; size += 37 {
		w, sent := httptest.NewRecorder(), make(chan []byte, 4)
		d := &mapSubscriber{noHijack: noHijack{w}, channel: "m", kind: 1, commands: sent, id: 2}
		for rest := node; rest != ""; {
			piece := rest[:min(size, len(rest))]
			if n, err := d.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
			rest = rest[len(piece):]
		}
		close(sent)
		var said []string
		for text := range sent {
			said = append(said, string(text))
		}
		if got := w.Body.String(); got != lines || d.session != "s" {
			t.Errorf("pieces of %d: session %s\n%s", size, d.session, got)
		}
		if strings.Join(said, "\n") != strings.Join(commands, "\n") {
			t.Errorf("pieces of %d: commands\n%s", size, strings.Join(said, "\n"))
		}
	}
}

func TestDialogueFails(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":2,"error":{"code":112,"message":"unrecoverable position"}}`: `{"error":{"code":112,"message":"unrecoverable position"}}` + "\n",
		`nonsense`: "",
	} {
		w := httptest.NewRecorder()
		d := &mapSubscriber{noHijack: noHijack{w}, channel: "m", commands: make(chan []byte, 4), id: 2}
		if _, err := d.Write([]byte(text + "\n")); err == nil {
			t.Error(text, "is accepted")
		}
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	d := &mapSubscriber{noHijack: noHijack{httptest.NewRecorder()}, commands: make(chan []byte)}
	if _, err := d.Write([]byte("{}\n")); !errors.Is(err, errRefused) {
		t.Error(err)
	}
}
