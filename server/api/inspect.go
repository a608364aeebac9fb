package api

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/protocol"
)

// Connections executes a connections command.
func (e *Executor) Connections(ctx context.Context, r *ConnectionsRequest) (*ConnectionsResult, error) {
	err := error(nil)
	switch {
	case r.Expression != "":
		err = errExpression
	case r.User == "" && r.Client == "" && r.Channel == "" && r.LabelFilter == nil:
		err = errNobody
	}
	if err != nil {
		return nil, e.failed(ctx, MethodConnections, r.Channel, err)
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	found, err := e.node.Connections(ctx, inspect.Filter{
		User: r.User, Client: r.Client, Channel: r.Channel, Labels: r.LabelFilter.tree(), Limit: int(r.Limit),
	})
	incomplete, err := partial(err, errFilter)
	if err != nil {
		return nil, e.failed(ctx, MethodConnections, r.Channel, err)
	}
	list, hidden := e.connections(found.List)
	return &ConnectionsResult{Connections: list, More: found.More || hidden, Incomplete: incomplete}, nil
}

// Flight executes a flight command.
func (e *Executor) Flight(ctx context.Context, r *FlightRequest) (*FlightResult, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	q := inspect.Query{User: r.User, Client: r.Client, Channel: r.Channel, Limit: int(r.Limit), Nodes: r.Nodes}
	if r.SinceMs != 0 {
		q.Since = time.UnixMilli(r.SinceMs)
	}
	log, err := e.node.Flight(ctx, q)
	incomplete, err := partial(err, errLimit)
	if err != nil {
		return nil, e.failed(ctx, MethodFlight, r.Channel, err)
	}
	res := &FlightResult{Events: e.events(log.Events), More: log.More, Incomplete: incomplete}
	if !log.From.IsZero() {
		res.CompleteSinceMs = log.From.UnixMilli()
	}
	return res, nil
}

// partial returns which nodes have not answered a survey whose other answers are of use. bad is the error for
// a request that the node refuses.
func partial(err, bad error) (incomplete string, _ error) {
	switch {
	case errors.Is(err, gyro.ErrNoAnswer):
		return strings.TrimPrefix(err.Error(), "gyro: "), nil
	case errors.Is(err, protocol.ErrorBadRequest):
		return "", bad
	}
	return "", err
}

// connections are those of an answer. hidden tells that subscriptions are left out to which the sender has
// no right.
func (e *Executor) connections(list []inspect.Connection) (_ map[string]*ConnectionInfo, hidden bool) {
	infos := make(map[string]*ConnectionInfo, len(list))
	for _, c := range list {
		i := &ConnectionInfo{
			AppName: c.AppName, AppVersion: c.AppVersion, Transport: c.Transport, Protocol: c.Protocol, User: c.User,
			State:         &ConnectionState{Channels: make(map[string]*ChannelContext, len(c.Channels)), Meta: c.Meta},
			ConnectedAtMs: c.ConnectedAt.UnixMilli(), PingPongLatencyMs: max(c.Latency.Milliseconds(), -1), Labels: c.Labels,
			Node: c.Node, Addr: c.Addr, Queue: uint64(c.Queue), Commands: uint32(c.Commands),
		}
		if c.Latency < 0 {
			i.PingPongLatencyMs = -1
		}
		for ch, s := range c.Channels {
			if e.mayName(ch) != nil {
				hidden = true
				continue
			}
			i.State.Channels[ch] = &ChannelContext{Source: uint32(s.Source), ServerSide: s.ServerSide, Offset: s.Offset, Epoch: s.Epoch}
		}
		infos[c.Client] = i
	}
	return infos, hidden
}

// events are those of an answer, without those of channels to which the sender has no right.
func (e *Executor) events(list []inspect.Event) []FlightEvent {
	events := make([]FlightEvent, 0, len(list))
	for _, v := range list {
		if e.mayName(v.Channel) != nil {
			continue
		}
		events = append(events, FlightEvent{
			TimeMs: v.Time.UnixMilli(), Kind: v.Kind.String(), Node: v.Node, Client: v.Client, User: v.User, Addr: v.Addr,
			Channel: v.Channel, What: v.What, Code: v.Code, Reason: v.Text, Key: v.Key, Count: uint32(v.Count),
		})
	}
	return events
}

// tree returns the filter as the client protocol has it.
func (n *FilterNode) tree() *protocol.FilterNode {
	if n == nil {
		return nil
	}
	t := &protocol.FilterNode{Op: n.Op, Key: n.Key, Cmp: n.Cmp, Val: n.Val, Vals: n.Vals, Excess: n.Excess}
	for _, c := range n.Nodes {
		t.Nodes = append(t.Nodes, cmp.Or(c, new(FilterNode)).tree())
	}
	return t
}
