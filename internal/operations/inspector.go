package operations

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/tagsfilter"
	"github.com/gyrohq/gyro/protocol"
)

const (
	opConnections = "centrifuge_connections"
	opFlight      = "centrifuge_flight"
	opSnapshot    = "centrifuge_snapshot"
)

// Inspector asks all nodes, and answers for this one. The exported fields are set before its use. Any goroutine may use
// it.
type Inspector struct {
	Node string
	// Recorder may be nil.
	Clients  *client.Registry
	Recorder *flightrecorder.Recorder
	Survey   func(ctx context.Context, op string, data []byte, to string) (map[string]cluster.Answer, error)
	Nodes    func(ctx context.Context) ([]inspect.Node, error)
	// Expressions compiles the expressions of filters; nil: there are none.
	Expressions func(text string) (inspect.Condition, error)

	snapshots snapshots
	// searching lets one request at a time evaluate an expression, which may take a processor for searchTime.
	searching chan struct{}
	once      sync.Once
}

type message interface {
	AppendProto(dst []byte) []byte
	UnmarshalProto(data []byte) error
}

// Connections returns the connections of all nodes that f selects. If nodes do not answer, it returns those of the
// others with an error that wraps cluster.ErrNoAnswer.
func (i *Inspector) Connections(ctx context.Context, f inspect.Filter) (all inspect.Connections, err error) {
	if f.Limit, err = limit(f.Limit); err != nil {
		return all, err
	}
	req, err := i.request(&f)
	if err != nil {
		return all, err
	}
	err = i.ask(ctx, opConnections, req, "", func(uid string, data []byte) error {
		var res control.ConnectionsResponse
		if err := res.UnmarshalProto(data); err != nil {
			return err
		}
		all.More, all.Failed = all.More || res.More, cmp.Or(all.Failed, res.Failed)
		for _, c := range res.Connections {
			all.List = append(all.List, connection(uid, c))
		}
		return nil
	})
	slices.SortFunc(all.List, func(a, b inspect.Connection) int {
		return cmp.Or(a.ConnectedAt.Compare(b.ConnectedAt), strings.Compare(a.Client, b.Client))
	})
	if len(all.List) > f.Limit {
		all.List, all.More = all.List[:f.Limit], true
	}
	return all, err
}

func (i *Inspector) request(f *inspect.Filter) (*control.ConnectionsRequest, error) {
	req := &control.ConnectionsRequest{User: f.User, Client: f.Client, Channel: f.Channel, Limit: uint32(f.Limit), Expression: f.Expression}
	if f.Labels != nil {
		req.Labels = f.Labels.AppendProto(nil)
	}
	_, err := i.selection(req)
	return req, err
}

// An error of selection wraps protocol.ErrorBadRequest.
func (i *Inspector) selection(req *control.ConnectionsRequest) (*selection, error) {
	s := &selection{
		Filter: inspect.Filter{User: req.User, Client: req.Client, Channel: req.Channel, Limit: min(int(req.Limit), inspect.MaxLimit)},
		labels: func(map[string]string) bool { return true },
	}
	if len(req.Labels) > 0 {
		var tree protocol.FilterNode
		if err := tree.UnmarshalProto(req.Labels); err != nil {
			return nil, err
		}
		filter, err := tagsfilter.Compile(&tree)
		if err != nil {
			return nil, fmt.Errorf("%w: labels: %w", protocol.ErrorBadRequest, err)
		}
		s.labels = filter.Match
	}
	if req.Expression == "" {
		return s, nil
	}
	if i.Expressions == nil {
		return nil, errNoExpressions
	}
	condition, err := i.Expressions(req.Expression)
	if err != nil {
		return nil, fmt.Errorf("%w: %w %w", protocol.ErrorBadRequest, inspect.ErrExpression, err)
	}
	s.condition = condition
	return s, nil
}

// Flight returns the events of all nodes that q selects. If nodes do not answer, it returns those of the others with an
// error that wraps cluster.ErrNoAnswer.
func (i *Inspector) Flight(ctx context.Context, q inspect.Query) (all inspect.Log, err error) {
	if q.Limit, err = limit(q.Limit); err != nil {
		return all, err
	}
	req := control.FlightRequest{User: q.User, Client: q.Client, Channel: q.Channel, Nodes: q.Nodes, Limit: uint32(q.Limit)}
	if !q.Since.IsZero() {
		req.Since = q.Since.UnixNano()
	}
	err = i.ask(ctx, opFlight, &req, "", func(uid string, data []byte) error {
		var res control.FlightResponse
		if err := res.UnmarshalProto(data); err != nil {
			return err
		}
		part := inspect.Log{More: res.More}
		if res.From != 0 {
			part.From = time.Unix(0, res.From)
		}
		for _, e := range res.Events {
			part.Events = append(part.Events, event(uid, e))
		}
		all = flightrecorder.Merge(all, part, q.Limit)
		return nil
	})
	return all, err
}

func limit(n int) (int, error) {
	if n < 0 || n > inspect.MaxLimit {
		return 0, fmt.Errorf("%w: the limit %d is not between 0 and %d", protocol.ErrorBadRequest, n, inspect.MaxLimit)
	}
	return cmp.Or(n, inspect.DefaultLimit), nil
}

// ask asks all nodes, or the node to, and calls take with each answer. If an answer cannot be used, it returns an error
// after all others.
func (i *Inspector) ask(ctx context.Context, op string, req message, to string, take func(uid string, data []byte) error) error {
	answers, err := i.Survey(ctx, op, req.AppendProto(nil), to)
	for uid, a := range answers {
		var bad error
		if a.Code != cluster.CodeOK { // an earlier version, or a node that is overloaded
			bad = fmt.Errorf("code %d: %.200q", a.Code, a.Data)
		} else {
			bad = take(uid, a.Data)
		}
		if bad != nil {
			err = cmp.Or(err, fmt.Errorf("%w of node %s to survey %q: %w", cluster.ErrNoAnswer, uid, op, bad))
		}
	}
	return err
}

// Inquire implements cluster.Handler.
func (i *Inspector) Inquire(ctx context.Context, op string, data []byte) cluster.Answer {
	var res message
	var err error
	switch op {
	case opConnections:
		var req control.ConnectionsRequest
		if err = req.UnmarshalProto(data); err == nil {
			res, err = i.connections(ctx, &req)
		}
	case opFlight:
		var req control.FlightRequest
		if err = req.UnmarshalProto(data); err == nil {
			res = i.events(&req)
		}
	case opSnapshot:
		var req control.SnapshotRequest
		if err = req.UnmarshalProto(data); err == nil {
			res, err = i.page(ctx, &req)
		}
	default:
		return cluster.Answer{Code: cluster.CodeUnknownOp}
	}
	if err != nil {
		return cluster.Answer{Code: cluster.CodeInvalid, Data: []byte(err.Error())}
	}
	return cluster.Answer{Data: res.AppendProto(nil)}
}

func (i *Inspector) connections(ctx context.Context, req *control.ConnectionsRequest) (message, error) {
	s, err := i.selection(req)
	if err != nil {
		return nil, err
	}
	if s.condition != nil {
		i.once.Do(func() { i.searching = make(chan struct{}, 1) })
		select {
		case i.searching <- struct{}{}:
			defer func() { <-i.searching }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return s.search(ctx, i.Clients.Walk(), s.Limit)
	}
	found, err := i.Clients.Connections(ctx, &s.Filter, s.labels)
	if err != nil {
		return nil, err
	}
	res := &control.ConnectionsResponse{More: found.More, Connections: make([]*control.Connection, len(found.List))}
	for n := range found.List {
		res.Connections[n] = described(&found.List[n])
	}
	return res, nil
}

func (i *Inspector) events(req *control.FlightRequest) message {
	q := inspect.Query{User: req.User, Client: req.Client, Channel: req.Channel, Nodes: req.Nodes, Limit: min(int(req.Limit), inspect.MaxLimit)}
	if req.Since != 0 {
		q.Since = time.Unix(0, req.Since)
	}
	log := i.Recorder.Read(&q)
	res := &control.FlightResponse{More: log.More, Events: make([]*control.Event, len(log.Events))}
	if !log.From.IsZero() {
		res.From = log.From.UnixNano()
	}
	for n, e := range log.Events {
		res.Events[n] = &control.Event{
			Time: e.Time.UnixNano(), Kind: uint32(e.Kind), Client: e.Client, User: e.User, Addr: e.Addr, Channel: e.Channel,
			What: e.What, Text: e.Text, Key: e.Key, Code: e.Code, Count: uint32(e.Count),
		}
	}
	return res
}

func event(uid string, e *control.Event) inspect.Event {
	return inspect.Event{
		Time: time.Unix(0, e.Time), Node: uid, Kind: inspect.Kind(e.Kind), Client: e.Client, User: e.User, Addr: e.Addr, Channel: e.Channel,
		What: e.What, Text: e.Text, Key: e.Key, Code: e.Code, Count: int(e.Count),
	}
}

func described(c *inspect.Connection) *control.Connection {
	m := &control.Connection{
		Client: c.Client, User: c.User, Transport: c.Transport, Protocol: c.Protocol, AppName: c.AppName, AppVersion: c.AppVersion,
		Addr: c.Addr, ConnectedAt: c.ConnectedAt.UnixMilli(), Latency: -1, Queue: uint64(c.Queue), Commands: uint32(c.Commands),
		Labels: c.Labels, Meta: c.Meta, Token: packed(c.Token), Subscriptions: make([]*control.Subscription, 0, len(c.Channels)),
	}
	if c.Latency >= 0 {
		m.Latency = c.Latency.Milliseconds()
	}
	for ch, s := range c.Channels {
		m.Subscriptions = append(m.Subscriptions, &control.Subscription{
			Channel: ch, ServerSide: s.ServerSide, Source: uint32(s.Source), Positioned: s.Positioned, Offset: s.Offset, Epoch: s.Epoch,
			Token: packed(s.Token),
		})
	}
	return m
}

func connection(uid string, m *control.Connection) inspect.Connection {
	c := inspect.Connection{
		Client: m.Client, User: m.User, Node: uid, Transport: m.Transport, Protocol: m.Protocol, AppName: m.AppName, AppVersion: m.AppVersion,
		Addr: m.Addr, ConnectedAt: time.UnixMilli(m.ConnectedAt), Latency: time.Duration(m.Latency) * time.Millisecond,
		Queue: int(m.Queue), Commands: int(m.Commands), Labels: m.Labels, Meta: m.Meta, Token: token(m.Token),
		Channels: make(map[string]inspect.Subscription, len(m.Subscriptions)),
	}
	for _, s := range m.Subscriptions {
		c.Channels[s.Channel] = inspect.Subscription{
			ServerSide: s.ServerSide, Source: uint8(s.Source), Positioned: s.Positioned, Offset: s.Offset, Epoch: s.Epoch,
			Token: token(s.Token),
		}
	}
	return c
}

func packed(t *channel.Token) *control.Token {
	if t == nil {
		return nil
	}
	return &control.Token{ID: t.ID, IssuedAt: t.IssuedAt}
}

func token(m *control.Token) *channel.Token {
	if m == nil {
		return nil
	}
	return &channel.Token{ID: m.ID, IssuedAt: m.IssuedAt}
}
