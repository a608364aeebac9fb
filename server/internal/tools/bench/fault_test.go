package bench

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
)

func encodings(t *testing.T, f func(t *testing.T, e protocol.Encoding)) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		t.Run(e.String(), func(t *testing.T) {
			t.Parallel()
			f(t, e)
		})
	}
}

func smallFanout(target Target) Fanout {
	return Fanout{Target: target, Subscribers: 2, Channels: 1, Load: Load{Publishers: 1, Messages: 10, Window: 1}}
}

// TestFaultyFanout: what a server does wrong is seen, and nothing else.
func TestFaultyFanout(t *testing.T) {
	t.Parallel()
	type pubs = []*protocol.Publication
	edited := func(old, text string) func(int, *protocol.Publication) pubs {
		return func(n int, p *protocol.Publication) pubs {
			if n == 3 {
				p = &protocol.Publication{Data: []byte(strings.Replace(string(p.Data), old, text, 1))}
			}
			return pubs{p}
		}
	}
	for name, test := range map[string]struct {
		deliver func() func(n int, p *protocol.Publication) pubs
		want    DeliverResult // of 20 deliveries, to two subscribers
		fault   string
	}{
		"none": {want: DeliverResult{Received: 20}},
		"lost": {func() func(int, *protocol.Publication) pubs {
			return func(n int, p *protocol.Publication) pubs {
				if n == 3 || n == 9 { // within, and at the end
					return nil
				}
				return pubs{p}
			}
		}, DeliverResult{Received: 16, Lost: 4}, "4 messages lost"},
		"duplicated": {func() func(int, *protocol.Publication) pubs {
			return func(n int, p *protocol.Publication) pubs {
				if n == 3 {
					return pubs{p, p}
				}
				return pubs{p}
			}
		}, DeliverResult{Received: 20, Duplicated: 2}, "2 messages delivered twice"},
		"reordered": {func() func(int, *protocol.Publication) pubs {
			var held *protocol.Publication
			return func(n int, p *protocol.Publication) pubs {
				switch n {
				case 3:
					held = p
					return nil
				case 4:
					return pubs{p, held}
				}
				return pubs{p}
			}
		}, DeliverResult{Received: 20, Reordered: 2}, "2 messages out of order"},
		"never published": {func() func(int, *protocol.Publication) pubs {
			return edited(`"s":3`, `"s":33`)
		}, DeliverResult{Received: 18, Lost: 2, Corrupt: 2}, "2 messages corrupt"},
		"of another channel": {func() func(int, *protocol.Publication) pubs {
			return edited(`"c":0`, `"c":1`)
		}, DeliverResult{Received: 18, Lost: 2, Corrupt: 2}, "2 messages corrupt"},
		"mangled": {func() func(int, *protocol.Publication) pubs {
			return edited(`{"g":`, `{"h":`)
		}, DeliverResult{Received: 18, Lost: 2, Foreign: 2}, "2 messages lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encodings(t, func(t *testing.T, e protocol.Encoding) {
				s := startFake(t, e)
				if test.deliver != nil {
					s.deliver = test.deliver()
				}
				target := s.target()
				if test.want.Lost > 0 {
					target = s.losing()
				}
				rep, err := execute(t, smallFanout(target))
				d := rep.Deliver
				got := DeliverResult{
					Received: d.Received, Lost: d.Lost, Duplicated: d.Duplicated,
					Reordered: d.Reordered, Corrupt: d.Corrupt, Foreign: d.Foreign,
				}
				if got != test.want || d.Expected != 20 {
					t.Errorf("%+v", d)
				}
				if (err == nil) != (test.fault == "") || err != nil && (!errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), test.fault)) {
					t.Errorf("error %v, want %q", err, test.fault)
				}
			})
		})
	}
}

// TestFaultyRecovery: likewise for what comes with recovery.
func TestFaultyRecovery(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		recover func(*protocol.SubscribeResult)
		fault   string // of 3 clients that miss 4 messages each
	}{
		"none":          {nil, ""},
		"lost":          {func(r *protocol.SubscribeResult) { r.Publications = r.Publications[1:] }, "3 messages lost"},
		"last lost":     {func(r *protocol.SubscribeResult) { r.Publications = r.Publications[:3] }, "3 messages lost"},
		"twice":         {func(r *protocol.SubscribeResult) { r.Publications = append(r.Publications, r.Publications[3]) }, "3 messages delivered twice"},
		"not recovered": {func(r *protocol.SubscribeResult) { r.Recovered, r.Publications = false, nil }, "12 messages lost, 3 clients not recovered"},
		"out of order": {func(r *protocol.SubscribeResult) {
			r.Publications[0], r.Publications[1] = r.Publications[1], r.Publications[0]
		}, "3 messages out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encodings(t, func(t *testing.T, e protocol.Encoding) {
				s := startFake(t, e)
				s.recover = test.recover
				target := s.target()
				if strings.Contains(test.fault, "lost") {
					target = s.losing()
				}
				rep, err := execute(t, Storm{Target: target, Connections: 3, Load: Load{Publishers: 1, Messages: 4, Window: 2}})
				if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
					t.Errorf("error %v, want %q", err, test.fault)
				}
				if rep.Storm == nil || rep.Storm.Returned != 3 {
					t.Errorf("%+v", rep.Storm)
				}
			})
		})
	}
}

// TestLostConnections: a connection that ends is reported with its code, and what
// it does not get is lost.
func TestLostConnections(t *testing.T) {
	t.Parallel()
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		s := startFake(t, e)
		s.end = func(n int) bool { return n == 5 }
		rep, err := execute(t, smallFanout(s.losing()))
		if rep.Disconnects["3008 slow"] != 2 || rep.Deliver.Lost != 10 || err == nil || !strings.Contains(err.Error(), "2 connections lost") {
			t.Errorf("%v %v %v", rep.Disconnects, rep.Deliver, err)
		}
	})
}

// TestRefusals: errors of the server come through, with what was tried.
func TestRefusals(t *testing.T) {
	t.Parallel()
	refuse := func(match func(*protocol.Command) bool, r protocol.Reply) func(*fake) {
		return func(f *fake) {
			f.answer = func(cmd *protocol.Command) *protocol.Reply {
				if !match(cmd) {
					return nil
				}
				reply := r
				return &reply
			}
		}
	}
	isConnect := func(c *protocol.Command) bool { return c.Connect != nil }
	isSubscribe := func(c *protocol.Command) bool { return c.Subscribe != nil }
	isPublish := func(c *protocol.Command) bool { return c.Publish != nil }
	for name, test := range map[string]struct {
		prepare func(*fake)
		want    string
	}{
		"connect":      {refuse(isConnect, protocol.Reply{Error: protocol.ErrorUnauthorized}), "connect: error 101: unauthorized"},
		"no result":    {refuse(isConnect, protocol.Reply{}), "connect: the reply has no result"},
		"subscribe":    {refuse(isSubscribe, protocol.Reply{Error: protocol.ErrorUnknownChannel}), `subscribe to "bench`},
		"publish":      {refuse(isPublish, protocol.Reply{Error: protocol.ErrorPermissionDenied}), "error 103: permission denied (clients may publish only"},
		"disconnect":   {refuse(isConnect, protocol.Reply{Push: &protocol.Push{Disconnect: &protocol.DisconnectConnectionLimit}}), "disconnect 3504: connection limit"},
		"no recovery":  {refuse(isSubscribe, protocol.Reply{Subscribe: &protocol.SubscribeResult{}}), "does not recover this channel"},
		"unsubscribed": {refuse(isSubscribe, protocol.Reply{Push: &protocol.Push{Channel: "bench-0", Unsubscribe: &protocol.Unsubscribe{Code: 2500, Reason: "x"}}}), `unsubscribed from "bench-0" by the server: 2500 x`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encodings(t, func(t *testing.T, e protocol.Encoding) {
				s := startFake(t, e)
				test.prepare(s)
				_, err := execute(t, Storm{Target: s.target(), Connections: 2, Load: Load{Publishers: 1, Messages: 1, Window: 1}})
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
			})
		})
	}
}

// TestUnreachable: nobody, and somebody else.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "ws://" + ln.Addr().String()
	ln.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for url, want := range map[string]string{
		address: "connection refused",
		"ws" + strings.TrimPrefix(web.URL, "http"): "answers the WebSocket handshake with HTTP status 404",
	} {
		if _, err := execute(t, smallFanout(testTarget(url, protocol.JSON))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestBounded: a server that does not answer does not hold a run beyond its time.
func TestBounded(t *testing.T) {
	t.Parallel()
	s := startFake(t, protocol.JSON)
	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s.answer = func(*protocol.Command) *protocol.Reply {
		cancel(late) // the time is over while the run waits for the answer
		return &protocol.Reply{Push: &protocol.Push{Message: &protocol.Message{}}}
	}
	rep, err := smallFanout(s.target()).Run(ctx)
	if !errors.Is(err, late) || rep.Connect.Connected != 0 || rep.OK {
		t.Errorf("%v %+v", err, rep)
	}
}

// TestBadOptions: each by its name, before anything happens.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	good := testTarget("ws://127.0.0.1:1", protocol.JSON)
	load := Load{Publishers: 1, Messages: 1, Window: 1}
	with := func(edit func(*Target)) Target {
		target := good
		edit(&target)
		return target
	}
	for want, s := range map[string]scenarioOf{
		`url: "http://x" is no ws:// or wss:// address`: Idle{Target: with(func(t *Target) { t.URL = "http://x" }), Connections: 1, Duration: 1},
		"size: 95 is not from 96 to 1048576":            Idle{Target: with(func(t *Target) { t.Size = 95 }), Connections: 1, Duration: 1},
		"channel: is required":                          Idle{Target: with(func(t *Target) { t.Channel = "" }), Connections: 1, Duration: 1},
		"page: is of maps only":                         Idle{Target: with(func(t *Target) { t.Page = 1 }), Connections: 1, Duration: 1},
		"keys: -1 is not from 1":                        Idle{Target: with(func(t *Target) { t.Keys = -1 }), Connections: 1, Duration: 1},
		"clients of uni_sse cannot":                     Idle{Target: with(func(t *Target) { t.Keys, t.Transport, t.URL = 1, "uni_sse", "http://x" }), Connections: 1, Duration: 1},
		"dialers: 0 is less than 1":                     Idle{Target: with(func(t *Target) { t.Dialers = 0 }), Connections: 1, Duration: 1},
		"drain: 0s is not positive":                     Idle{Target: with(func(t *Target) { t.Drain = 0 }), Connections: 1, Duration: 1},
		"conns: 0 is not from 1 to":                     Idle{Target: good, Duration: 1},
		"duration: 0s is not positive":                  Idle{Target: good, Connections: 1},
		"channels: 2 is not from 1 to 1":                Fanout{Target: good, Subscribers: 1, Channels: 2, Load: load},
		"sub: 0 is not from 1":                          Fanout{Target: good, Channels: 1, Load: load},
		"msgs: is required":                             Fanout{Target: good, Subscribers: 1, Channels: 1, Load: Load{Publishers: 1, Window: 1}},
		"pub: 0 is not from 1":                          Fanout{Target: good, Subscribers: 1, Channels: 1, Load: Load{Messages: 1, Window: 1}},
		"window: 0 is not from 1":                       Fanout{Target: good, Subscribers: 1, Channels: 1, Load: Load{Publishers: 1, Messages: 1}},
		"rate: -1 is not from 0":                        Fanout{Target: good, Subscribers: 1, Channels: 1, Load: Load{Publishers: 1, Messages: 1, Window: 1, Rate: -1}},
		`api: "" is no http:// or https:// address`:     Publish{Target: good, Channels: 1, Load: Load{Publishers: 1, Messages: 1, Window: 1, OverAPI: true}},
		"broadcast: goes over the HTTP API only":        Publish{Target: good, Channels: 1, Broadcast: true, Load: load},
		"live: -1 is not from 0":                        Storm{Target: good, Connections: 1, Live: -1, Load: load},
		"away: -1ns is negative":                        Storm{Target: good, Connections: 1, Away: -1, Load: load},
	} {
		if rep, err := s.Run(t.Context()); rep != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
