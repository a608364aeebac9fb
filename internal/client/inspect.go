package client

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/refusal"
)

// noLatency: the client has answered no ping.
const noLatency = math.MaxUint16

func (e *env) Pong(at int64) {
	e.loop.counts.Pong(&e.session, at)
	e.latency = uint16(min(max((e.loop.Now()-at)/int64(time.Millisecond), 0), noLatency-1))
}

func (e *env) Note(k inspect.Kind, ch string, code uint32, count int, text string) {
	if e.loop.ring != nil {
		e.loop.ring.Add(e.loop.Wall(), &flightrecorder.Record{
			Kind: k, Client: e.id, User: e.session.User(), Addr: e.remoteAddr, Channel: ch, Code: code, Count: count, Text: text,
		})
	}
}

// recorder also records refusals in a ring, under the names that the observer gives their keys.
func (r *Registry) recorder(ring *flightrecorder.Ring) refusal.Reporter {
	observed := r.Observer.Refused
	return refusal.Reporter{Log: r.Log, Observe: func(f *refusal.Refusal) {
		if observed != nil {
			observed(f)
		}
		id, _ := uuid.Parse(f.Client) // zero if there is none
		ring.Add(r.Session.Clocks.Wall(), &flightrecorder.Record{
			Kind: inspect.Refused, Client: id, User: f.User, Addr: f.Addr, Channel: f.Channel, Code: f.Code,
			What: f.Kind, Text: f.Reason, Key: f.Key,
		})
	}}
}

// Connections returns what f selects, in no order and without the node. matches decides by labels.
func (r *Registry) Connections(ctx context.Context, f *inspect.Filter, matches func(labels map[string]string) bool) (inspect.Connections, error) {
	var mu sync.Mutex
	var all inspect.Connections
	var id uuid.UUID
	if f.Client != "" {
		if id, _ = uuid.Parse(f.Client); id == uuid.Nil {
			return all, nil // no client has that ID
		}
	}
	err := r.OnLoops(ctx, func(l *Loop) {
		found, channelsLeft := inspect.Connections{}, inspect.MaxChannels/len(r.loops)
		l.find(f, func(c *Client) bool {
			labels := inspect.Labels(c.Context())
			if f.Client != "" && c.id != id || !matches(labels) {
				return true
			}
			if len(found.List) == f.Limit || channelsLeft <= 0 {
				found.More = true
				return false
			}
			connection := c.describe(labels)
			for ch := range connection.Channels {
				if channelsLeft--; channelsLeft < 0 {
					delete(connection.Channels, ch)
					found.More = true
				}
			}
			found.List = append(found.List, connection)
			return true
		})
		mu.Lock()
		defer mu.Unlock()
		all.List, all.More = append(all.List, found.List...), all.More || found.More
	})
	return all, err
}

// find calls yield with connected clients by user and channel, until it returns false.
func (l *Loop) find(f *inspect.Filter, yield func(*Client) bool) {
	switch {
	case f.Channel != "":
		l.Hub().Each(f.Channel, func(s hub.Subscriber) bool {
			c := s.(*session.Subscription).Of().Env().(*env).client()
			return !c.session.Subscribed(f.Channel) || f.User != "" && f.User != c.UserID() || yield(c)
		})
	case f.User != "":
		for _, c := range l.users[f.User] {
			if _, connected := c.session.Agent(); connected && !yield(c) {
				return
			}
		}
	default:
		for c := l.first; c != nil; c = c.next {
			if _, connected := c.session.Agent(); connected && !yield(c) {
				return
			}
		}
	}
}

// describe is called on the loop.
func (c *Client) describe(labels map[string]string) inspect.Connection {
	v, a := c.session.Via(), c.loop.agents.of(c.agent)
	i := inspect.Connection{
		Client: c.ID(), User: c.UserID(), Transport: v.Name, Protocol: v.Framer.Encoding().String(), AppName: a.name, AppVersion: a.version,
		Addr: c.remoteAddr, ConnectedAt: time.UnixMilli(c.connectedAt), Latency: -1, Labels: labels, Meta: c.Known().Meta, Token: c.session.Token(), Channels: c.session.Subscriptions(),
	}
	if c.latency != noLatency {
		i.Latency = time.Duration(c.latency) * time.Millisecond
	}
	i.Queue, i.Commands = c.session.Load()
	return i
}
