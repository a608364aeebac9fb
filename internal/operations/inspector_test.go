package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/protocol"
)

// asking returns an inspector that gets these answers, and the survey that it makes.
func asking(answers map[string]cluster.Answer, err error) (i *Inspector, asked *string) {
	asked = new(string)
	return &Inspector{Survey: func(_ context.Context, op string, data []byte, to string) (map[string]cluster.Answer, error) {
		*asked = fmt.Sprintf("%s %q %q", op, data, to)
		return maps.Clone(answers), err
	}}, asked
}

// inquiring returns an inspector that asks the recorders of others.
func inquiring(recorders map[string]*flightrecorder.Recorder) *Inspector {
	return &Inspector{Survey: func(ctx context.Context, op string, data []byte, _ string) (map[string]cluster.Answer, error) {
		answers := make(map[string]cluster.Answer)
		for uid, r := range recorders {
			answers[uid] = (&Inspector{Node: uid, Recorder: r}).Inquire(ctx, op, data)
		}
		return answers, nil
	}}
}

// TestFlight: what the recorders of all nodes select comes over the cluster as it was recorded, in its order, with the node
// that has it, and with the time from when on none has forgotten anything.
func TestFlight(t *testing.T) {
	id := uuid.New()
	a, b := flightrecorder.New(1, 1), flightrecorder.New(1, 1)
	a.Loop(0).Add(1_000, &flightrecorder.Record{
		Kind: inspect.Refused, Client: id, User: "ann", Addr: "10.0.0.1:2", Channel: "news", What: "subscribe refused", Text: "it is off", Key: "k", Code: 103, Count: 7,
	})
	b.Loop(0).Add(2_000, &flightrecorder.Record{Kind: inspect.Connected, User: "ann", Text: "sse"})
	a.Loop(0).Add(3_000, &flightrecorder.Record{Kind: inspect.Disconnected, User: "bob", Code: 3000})
	b.Node().Lost()
	a.Epochs().Compare(flightrecorder.ByCheck, "news", "x", "y")
	i := inquiring(map[string]*flightrecorder.Recorder{"a": a, "b": b, "off": nil})
	flown := func(q inspect.Query) []inspect.Event {
		t.Helper()
		log, err := i.Flight(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return log.Events
	}
	refused := inspect.Event{
		Time: time.Unix(0, 1_000), Node: "a", Kind: inspect.Refused, Client: id.String(), User: "ann", Addr: "10.0.0.1:2", Channel: "news",
		What: "subscribe refused", Text: "it is off", Key: "k", Code: 103, Count: 7,
	}
	connected := inspect.Event{Time: time.Unix(0, 2_000), Node: "b", Kind: inspect.Connected, User: "ann", Text: "sse"}
	if diff := cmp.Diff([]inspect.Event{refused, connected}, flown(inspect.Query{User: "ann"})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]inspect.Event{refused}, flown(inspect.Query{Client: id.String()})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]inspect.Event{connected}, flown(inspect.Query{User: "ann", Since: time.Unix(0, 1_500)})); diff != "" {
		t.Error(diff)
	}
	var kinds []string
	for _, e := range flown(inspect.Query{Channel: "news", Nodes: true}) {
		kinds = append(kinds, e.Node+" "+e.Kind.String()+" "+e.Text)
	}
	if diff := cmp.Diff([]string{"a refused it is off", "b lost ", "a new_epoch epoch x became y"}, kinds); diff != "" {
		t.Error(diff)
	}
	if log, err := i.Flight(t.Context(), inspect.Query{Limit: 2}); err != nil || len(log.Events) != 2 || !log.More || !log.From.IsZero() {
		t.Errorf("%+v, %v", log, err)
	}
	for n := range int64(20_000) {
		b.Loop(0).Add(10_000+n, &flightrecorder.Record{Kind: inspect.Slow})
	}
	if log, err := i.Flight(t.Context(), inspect.Query{User: "ann"}); err != nil || log.From.UnixNano() < 10_000 || len(log.Events) != 1 {
		t.Errorf("one node has forgotten much: %+v, %v", log, err)
	}
}

// TestConnections: connections come over the cluster as they are, those that came first in front; the limit holds for all
// nodes together.
func TestConnections(t *testing.T) {
	first := inspect.Connection{
		Client: "c1", User: "ann", Transport: "websocket", Protocol: "json", AppName: "js", AppVersion: "5", Addr: "10.0.0.1:2",
		ConnectedAt: time.UnixMilli(1), Latency: 5 * time.Millisecond, Queue: 9, Commands: 2, Labels: map[string]string{"plan": "free"}, Meta: []byte(`{"m":1}`),
		Channels: map[string]inspect.Subscription{
			"news": {Source: 6, Positioned: true, Offset: 3, Epoch: "e"}, "own": {ServerSide: true, Source: 9},
		},
	}
	second := inspect.Connection{Client: "c2", User: "ann", ConnectedAt: time.UnixMilli(2), Latency: -time.Millisecond, Channels: map[string]inspect.Subscription{}}
	answer := func(more bool, list ...inspect.Connection) cluster.Answer {
		res := control.ConnectionsResponse{More: more}
		for n := range list {
			res.Connections = append(res.Connections, described(&list[n]))
		}
		return cluster.Answer{Data: res.AppendProto(nil)}
	}
	i, asked := asking(map[string]cluster.Answer{"a": answer(false, second), "b": answer(false, first)}, nil)
	filter := inspect.Filter{User: "ann", Client: "c", Channel: "news", Labels: &protocol.FilterNode{Key: "plan", Cmp: "ex"}}
	got, err := i.Connections(t.Context(), filter)
	first.Node, second.Node = "b", "a"
	if diff := cmp.Diff(inspect.Connections{List: []inspect.Connection{first, second}}, got); diff != "" || err != nil {
		t.Errorf("%s %v", diff, err)
	}
	req := control.ConnectionsRequest{User: "ann", Client: "c", Channel: "news", Limit: inspect.DefaultLimit, Labels: filter.Labels.AppendProto(nil)}
	if want := fmt.Sprintf("%s %q %q", opConnections, req.AppendProto(nil), ""); *asked != want {
		t.Errorf("asked %s, want %s", *asked, want)
	}
	if got, err := i.Connections(t.Context(), inspect.Filter{Limit: 1}); err != nil || len(got.List) != 1 || got.List[0].Client != "c1" || !got.More {
		t.Errorf("%+v, %v", got, err)
	}
	i, _ = asking(map[string]cluster.Answer{"a": answer(true, first)}, nil)
	if got, err := i.Connections(t.Context(), inspect.Filter{}); err != nil || !got.More {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAnswers: what one node answers does not keep back what the others do; the error names the node.
func TestAnswers(t *testing.T) {
	event := control.FlightResponse{Events: []*control.Event{{Kind: uint32(inspect.Connected)}}}
	good := cluster.Answer{Data: event.AppendProto(nil)}
	silent := fmt.Errorf("%w of node c", cluster.ErrNoAnswer)
	for name, tt := range map[string]struct {
		answers map[string]cluster.Answer
		err     error
		want    string
	}{
		"all":       {map[string]cluster.Answer{"a": good}, nil, ""},
		"silent":    {map[string]cluster.Answer{"a": good}, silent, "of node c"},
		"old":       {map[string]cluster.Answer{"a": good, "b": {Code: cluster.CodeUnknownOp}}, nil, "of node b to survey \"centrifuge_flight\": code "},
		"malformed": {map[string]cluster.Answer{"a": good, "b": {Data: []byte{0xff}}}, nil, "of node b to survey"},
	} {
		t.Run(name, func(t *testing.T) {
			i, _ := asking(tt.answers, tt.err)
			log, err := i.Flight(t.Context(), inspect.Query{})
			if len(log.Events) != 1 || log.Events[0].Node != "a" {
				t.Errorf("%+v", log)
			}
			if (err != nil) != (tt.want != "") || err != nil && (!errors.Is(err, cluster.ErrNoAnswer) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	i, _ := asking(map[string]cluster.Answer{"a": {Data: []byte{0xff}}}, nil)
	if got, err := i.Connections(t.Context(), inspect.Filter{}); !errors.Is(err, cluster.ErrNoAnswer) || len(got.List) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestBounds: questions that cannot be answered are refused before anybody is asked.
func TestBounds(t *testing.T) {
	i, asked := asking(nil, nil)
	for _, n := range []int{-1, inspect.MaxLimit + 1} {
		_, err := i.Flight(t.Context(), inspect.Query{Limit: n})
		_, err2 := i.Connections(t.Context(), inspect.Filter{Limit: n})
		if !errors.Is(err, protocol.ErrorBadRequest) || !errors.Is(err2, protocol.ErrorBadRequest) {
			t.Errorf("%d: %v, %v", n, err, err2)
		}
	}
	if _, err := i.Connections(t.Context(), inspect.Filter{Labels: &protocol.FilterNode{Cmp: "what"}}); !errors.Is(err, protocol.ErrorBadRequest) {
		t.Error(err)
	}
	if *asked != "" {
		t.Errorf("asked %s", *asked)
	}
	if _, err := i.Flight(t.Context(), inspect.Query{Limit: inspect.MaxLimit}); err != nil {
		t.Error(err)
	}
}

// TestInquire: a node does not trust what other nodes ask.
func TestInquire(t *testing.T) {
	r := flightrecorder.New(1, 1)
	for range inspect.MaxLimit + 10 {
		r.Loop(0).Add(1, &flightrecorder.Record{Kind: inspect.Connected})
	}
	i := &Inspector{Recorder: r}
	for _, tt := range []struct {
		op   string
		data []byte
		want uint32
	}{
		{"centrifuge_other", nil, cluster.CodeUnknownOp},
		{opFlight, []byte{0xff}, cluster.CodeInvalid},
		{opConnections, []byte{0xff}, cluster.CodeInvalid},
		{opConnections, (&control.ConnectionsRequest{Labels: []byte{0xff}}).AppendProto(nil), cluster.CodeInvalid},
		{opConnections, (&control.ConnectionsRequest{Labels: (&protocol.FilterNode{Cmp: "what"}).AppendProto(nil)}).AppendProto(nil), cluster.CodeInvalid},
		{opFlight, nil, cluster.CodeOK},
	} {
		if got := i.Inquire(t.Context(), tt.op, tt.data); got.Code != tt.want {
			t.Errorf("%s %q: %+v", tt.op, tt.data, got)
		}
	}
	var res control.FlightResponse
	got := i.Inquire(t.Context(), opFlight, (&control.FlightRequest{Limit: 1 << 30}).AppendProto(nil))
	if err := res.UnmarshalProto(got.Data); err != nil || len(res.Events) != inspect.MaxLimit || !res.More {
		t.Errorf("%d events, more %v, %v", len(res.Events), res.More, err)
	}
}
