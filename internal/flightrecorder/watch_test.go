package flightrecorder

import (
	"errors"
	"slices"
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/inspect"
)

func TestWatch(t *testing.T) {
	r := New(1, 1)
	parts := []broker.Health{{Part: "node"}, {Part: "redis"}}
	look := r.Node().Watch(func() []broker.Health { return slices.Clone(parts) })
	look()
	parts[1].Err = errors.New("no connection")
	look()
	look()
	parts[1] = broker.Health{Part: "redis", Reconnects: 1}
	look()
	parts[1].Reconnects++
	look()
	look()
	r.Node().Lost()
	var got []inspect.Event
	for _, e := range r.Read(&inspect.Query{Nodes: true, Limit: 10}).Events {
		got = append(got, inspect.Event{Kind: e.Kind, What: e.What, Text: e.Text, Count: e.Count})
	}
	want := []inspect.Event{
		{Kind: inspect.Failing, What: "redis", Text: "no connection"}, {Kind: inspect.Working, What: "redis", Count: 1},
		{Kind: inspect.Working, What: "redis", Text: "it has reconnected", Count: 2}, {Kind: inspect.Lost},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if New(0, 1).Node().Watch(nil) != nil {
		t.Error("a ring that is off watches")
	}
}
