package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api/explain"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// Connections executes a connections command.
func (e *Executor) Connections(ctx context.Context, r *ConnectionsRequest) (*ConnectionsResult, error) {
	if r.User == "" && r.Client == "" && r.Channel == "" && r.LabelFilter == nil && r.Expression == "" {
		return nil, e.failed(ctx, MethodConnections, r.Channel, errNobody)
	}
	if r.Expression != "" && e.rights != nil { // an expression sees all channels of a connection
		if err := e.rights.EveryChannel(); err != nil {
			return nil, e.failed(ctx, MethodConnections, r.Channel, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	found, err := e.node.Connections(ctx, r.Filter())
	incomplete, err := partial(err, badFilter(err))
	if err != nil {
		return nil, e.failed(ctx, MethodConnections, r.Channel, err)
	}
	list, hidden := e.connections(found.List)
	return &ConnectionsResult{Connections: list, More: found.More || hidden, Incomplete: incomplete, Failed: found.Failed}, nil
}

// Filter returns the filter of the request.
func (r *ConnectionsRequest) Filter() inspect.Filter {
	return inspect.Filter{
		User: r.User, Client: r.Client, Channel: r.Channel, Labels: r.LabelFilter.tree(), Limit: int(r.Limit), Expression: r.Expression,
	}
}

// badFilter is the error for a filter that the node refuses; for an expression it names the mistake.
func badFilter(err error) error {
	if !errors.Is(err, inspect.ErrExpression) {
		return errFilter
	}
	answer := &Error{ErrBadRequest.Code, strings.TrimPrefix(err.Error(), protocol.ErrorBadRequest.Error()+": ")}
	answer.Message = ErrBadRequest.Message + ": " + answer.Message
	return refusal.Because(answer, "", "member expression is no condition on a connection, as the answer explains")
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

// Explain executes an explain command. It asks all nodes four times at most.
func (e *Executor) Explain(ctx context.Context, r *ExplainRequest) (*ExplainResult, error) {
	if r.User == "" {
		return nil, e.failed(ctx, MethodExplain, r.Channel, errNoUser)
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	c, res := explain.Case{User: r.User, Channel: r.Channel}, new(ExplainResult)
	if err := e.gather(ctx, &c, int(r.Limit)); err != nil {
		return nil, e.failed(ctx, MethodExplain, r.Channel, err)
	}
	if r.Channel != "" {
		res.Subscribe = e.explainSubscribe(r.User, r.Channel)
		if res.Subscribe.Decision == Refused {
			c.Denied = &explain.Denied{Reason: res.Subscribe.Reason, Key: res.Subscribe.Key}
		}
		if ch, err := e.checkHistory(r.Channel); err == nil {
			if h, err := e.node.History(ctx, r.Channel, &gyro.HistoryFilter{MetaTTL: ch.HistoryMetaTTL}); err == nil {
				c.Top, res.Top = &h.Top, (*StreamPosition)(&h.Top)
			}
		}
	}
	list, hidden := e.connections(c.Connections)
	res.Connections, res.More, res.Events, res.Incomplete = list, c.More || hidden, e.events(c.Events), c.Incomplete
	for _, f := range explain.Find(&c) {
		res.Findings = append(res.Findings, Finding{Level: string(f.Level), Text: f.Text, Key: f.Key, Client: f.Client})
	}
	return res, nil
}

// explainSubscribe explains the decision on a client without a token, and lists the namespace's options for subscribers.
func (e *Executor) explainSubscribe(user, name string) *SubscribeExplanation {
	resolver, f := e.channels(), channels.Facts{User: user, Insecure: e.insecure != nil && e.insecure()}
	why := resolver.ExplainSubscribe(name, f, false)
	out := &SubscribeExplanation{
		Decision: Allowed, Reason: why.Reason, Key: why.Key,
		Token: resolver.ExplainSubscribe(name, f, true).Decision.By == channels.Token,
	}
	switch {
	case why.Decision.By != channels.Rules:
		out.Decision = Backend
	case why.Decision.Err != nil:
		out.Decision = Refused
	}
	for _, c := range why.Checks {
		out.Checks = append(out.Checks, Check{Text: c.Text, Holds: c.Holds, Key: c.Key, Value: c.Value})
	}
	if why.Namespace != nil {
		out.Namespace, out.Options = why.Namespace.Name, channels.Describe(why.Namespace)
	}
	return out
}

// Values of SubscribeExplanation.Decision.
const (
	Allowed = "allowed"
	Refused = "refused"
	Backend = "backend"
)

// gather asks the nodes for connections and events of a user, without channels that the sender may not name.
func (e *Executor) gather(ctx context.Context, c *explain.Case, limit int) error {
	var (
		found       inspect.Connections
		log, epochs inspect.Log
		errs        [3]error
		work        sync.WaitGroup
	)
	work.Go(func() { found, errs[0] = e.node.Connections(ctx, inspect.Filter{User: c.User}) })
	work.Go(func() { log, errs[1] = e.node.Flight(ctx, inspect.Query{User: c.User, Limit: limit, Nodes: true}) })
	if c.Channel != "" {
		work.Go(func() {
			epochs, errs[2] = e.node.Flight(ctx, inspect.Query{User: c.User, Channel: c.Channel, Limit: limit, Nodes: true})
		})
	}
	work.Wait()
	for _, err := range errs {
		incomplete, err := partial(err, errLimit)
		if err != nil {
			return err
		}
		c.Incomplete = cmp.Or(c.Incomplete, incomplete)
	}
	c.Connections, c.More = found.List, found.More
	for _, of := range found.List {
		maps.DeleteFunc(of.Channels, func(ch string, _ inspect.Subscription) bool {
			hidden := e.mayName(ch) != nil
			c.More = c.More || hidden
			return hidden
		})
	}
	c.Events = slices.DeleteFunc(log.Events, func(v inspect.Event) bool {
		return e.mayName(v.Channel) != nil || c.Channel != "" && v.Channel != "" && v.Channel != c.Channel
	})
	for _, v := range epochs.Events {
		if v.Kind == inspect.NewEpoch {
			c.Events = append(c.Events, v)
		}
	}
	slices.SortStableFunc(c.Events, func(a, b inspect.Event) int { return a.Time.Compare(b.Time) })
	if len(c.Connections) > 0 {
		return nil
	}
	if log, err := e.node.Flight(ctx, inspect.Query{Since: time.Now().Add(-strangers), Limit: inspect.MaxLimit}); err == nil {
		c.Refused = slices.DeleteFunc(log.Events, func(v inspect.Event) bool { return v.Kind != inspect.Refused || v.User != "" || v.Channel != "" })
	}
	return nil
}

// strangers is how old refusals of clients without a user may be.
const strangers = 10 * time.Minute

// partial returns which nodes have not answered a survey. bad is the error for a request that the node refuses.
func partial(err, bad error) (incomplete string, _ error) {
	switch {
	case errors.Is(err, gyro.ErrNoAnswer):
		return strings.TrimPrefix(err.Error(), "gyro: "), nil
	case errors.Is(err, protocol.ErrorBadRequest):
		return "", bad
	}
	return "", err
}

// connections converts connections. hidden: it left out channels to which the sender has no right.
func (e *Executor) connections(list []inspect.Connection) (_ map[string]*ConnectionInfo, hidden bool) {
	infos := make(map[string]*ConnectionInfo, len(list))
	for i := range list {
		info, some := describe(&list[i], e.mayName)
		infos[list[i].Client], hidden = info, hidden || some
	}
	return infos, hidden
}

// Describe returns all about a connection, for senders with all rights.
func Describe(c *inspect.Connection) *ConnectionInfo {
	i, _ := describe(c, func(string) error { return nil })
	return i
}

// describe leaves out subscriptions that mayName refuses.
func describe(c *inspect.Connection, mayName func(ch string) error) (i *ConnectionInfo, hidden bool) {
	i = &ConnectionInfo{
		AppName: c.AppName, AppVersion: c.AppVersion, Transport: c.Transport, Protocol: c.Protocol, User: c.User,
		State:         &ConnectionState{Channels: make(map[string]*ChannelContext, len(c.Channels)), Meta: c.Meta, ConnectionToken: tokenInfo(c.Token)},
		ConnectedAtMs: c.ConnectedAt.UnixMilli(), PingPongLatencyMs: max(c.Latency.Milliseconds(), -1), Labels: c.Labels,
		Node: c.Node, Addr: c.Addr, Queue: uint64(c.Queue), Commands: uint32(c.Commands),
	}
	if c.Latency < 0 {
		i.PingPongLatencyMs = -1
	}
	for ch, s := range c.Channels {
		if mayName(ch) != nil {
			hidden = true
			continue
		}
		i.State.Channels[ch] = &ChannelContext{Source: uint32(s.Source), ServerSide: s.ServerSide, Offset: s.Offset, Epoch: s.Epoch}
		if s.Token != nil {
			if i.State.SubscriptionTokens == nil {
				i.State.SubscriptionTokens = make(map[string]*TokenInfo)
			}
			i.State.SubscriptionTokens[ch] = tokenInfo(s.Token)
		}
	}
	return i, hidden
}

func tokenInfo(t *channel.Token) *TokenInfo {
	if t == nil {
		return nil
	}
	return &TokenInfo{UID: t.ID, IssuedAt: t.IssuedAt}
}

// events converts events, without channels to which the sender has no right.
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
