package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

// silence is a controller that does nothing.
type silence struct{}

func (silence) Describe() broker.Traits                              { return broker.Traits{} }
func (silence) RunControl(string, func([]byte)) error                { return nil }
func (silence) PublishControl(context.Context, string, []byte) error { return nil }

// nowhere is a handler that does nothing.
type nowhere struct{ channels map[string]int }

func (nowhere) Inquire(context.Context, string, []byte) Answer { return Answer{Code: CodeUnknownOp} }
func (nowhere) Describe(context.Context) inspect.Node          { return inspect.Node{Name: "n"} }
func (nowhere) Apply(*control.Command)                         {}
func (nowhere) Answer(context.Context, string, string, []byte) (Answer, error) {
	return Answer{}, nil
}
func (nowhere) Dispatch(string, []byte) <-chan struct{} { return nil }

func (n nowhere) Channels(context.Context, func(string) bool) (map[string]int, error) {
	return n.channels, nil
}

func lonely(n nowhere) *Cluster {
	return New(Config{UID: "a", Controller: silence{}, Handler: n, Logger: slog.New(slog.DiscardHandler)})
}

// What 20 nodes cost each other is 7 of these per second and node.
func BenchmarkSignOfLife(b *testing.B) {
	c := lonely(nowhere{})
	info := inspect.Node{UID: "2b1cb1c4-3a93-4a4e-8c0f-0d1d4a1f5b6a", Name: "host_8000", Version: "1.2.3", NumClients: 50_000, NumChannels: 50_000}
	data := (&control.Command{UID: info.UID, Node: message(&info)}).AppendProto(nil)
	b.ReportAllocs()
	for b.Loop() {
		c.receive(data)
	}
}

func BenchmarkDisconnectCommand(b *testing.B) {
	c := lonely(nowhere{})
	data := (&control.Command{UID: "b", Disconnect: &control.Disconnect{User: "user", Code: 3503, Reason: "force disconnect"}}).AppendProto(nil)
	b.ReportAllocs()
	for b.Loop() {
		c.receive(data)
	}
}

// A node's part in listing 100,000 channels: to answer, and to read an answer.
func BenchmarkChannels(b *testing.B) {
	n := nowhere{channels: make(map[string]int)}
	for i := range 100_000 {
		n.channels[fmt.Sprint("chat:room-", i)] = 1 + i%3
	}
	c := lonely(n)
	b.ReportAllocs()
	for b.Loop() {
		a := c.answerChannels(context.Background(), nil)
		var res control.ChannelsResponse
		if err := res.UnmarshalProto(a.Data); err != nil || len(res.Channels) != len(n.channels) {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(a.Data)))
	}
}
