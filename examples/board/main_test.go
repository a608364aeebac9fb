package main

import (
	"context"
	"errors"
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

// follow subscribes to a map of a type, which has to fit into a page, and returns its entries.
func follow(t *testing.T, c *gyrotest.Client, name string, kind int32) []*protocol.Publication {
	t.Helper()
	reply, err := c.Try(&protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: name, Type: kind, Phase: 2}})
	if err != nil {
		t.Fatal(err)
	}
	return append(reply.Subscribe.State, reply.Subscribe.Publications...)
}

func set(name, key, data string) *protocol.Command {
	return &protocol.Command{Publish: &protocol.PublishRequest{Channel: name, Type: 1, Key: key, Data: []byte(data)}}
}

func do(t *testing.T, c *gyrotest.Client, command *protocol.Command) {
	t.Helper()
	if _, err := c.Try(command); err != nil {
		t.Fatal(err)
	}
}

func TestBoard(t *testing.T) {
	address := start(t)
	ann, bob := enter(t, address, "ann"), enter(t, address, "bob")
	if there := follow(t, ann, cards, 1); len(there) > 0 {
		t.Errorf("a new board has %v", there)
	}
	do(t, ann, set(cards, "1", `{"text":"hello"}`))
	if p := ann.Publication(cards); p.Key != "1" || string(p.Data) != `{"text":"hello"}` {
		t.Errorf("%+v", p)
	}
	// Who comes later has the cards, sees who is there, and whose pointer it is that moves.
	if there := follow(t, bob, cards, 1); len(there) != 1 || there[0].Key != "1" {
		t.Errorf("the board has %v", there)
	}
	if here := follow(t, bob, people, 2); len(here) != 2 {
		t.Errorf("here are %v", here)
	}
	follow(t, ann, pointers, 1)
	follow(t, bob, pointers, 1)
	do(t, ann, set(pointers, "forged", `{"x":1}`))
	if p := bob.Publication(pointers); p.Info.User != "ann" || p.Key != p.Info.Client {
		t.Errorf("%+v", p)
	}
	ann.Vanish()
	if p := bob.Publication(people); !p.Removed {
		t.Errorf("%+v", p)
	}
}

func TestRules(t *testing.T) {
	c := enter(t, start(t), "eve")
	for _, command := range []*protocol.Command{
		{Subscribe: &protocol.SubscribeRequest{Channel: "other", Type: 1, Phase: 2}},
		set(cards, "1", `{}`), // not subscribed
	} {
		if _, err := c.Try(command); !errors.Is(err, gyro.ErrorPermissionDenied) {
			t.Errorf("%+v: got %v", command, err)
		}
	}
	follow(t, c, cards, 1)
	follow(t, c, people, 2)
	for _, command := range []*protocol.Command{
		set(cards, strings.Repeat("k", 41), `{}`), set(cards, "1", `"`+strings.Repeat("x", 1000)+`"`), set(people, "somebody", `{}`),
	} {
		if _, err := c.Try(command); !errors.Is(err, gyro.ErrorPermissionDenied) {
			t.Errorf("%+v: got %v", command, err)
		}
	}
	// A channel without a map is none of the program's.
	if _, err := c.Try(&protocol.Command{Publish: &protocol.PublishRequest{Channel: cards, Data: []byte(`{}`)}}); !errors.Is(err, gyro.ErrorNotAvailable) {
		t.Errorf("a publication: got %v", err)
	}
}
