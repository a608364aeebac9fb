package gosdk

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const rounds = 15

type publisher struct {
	s         sdk
	channel   string
	count     atomic.Int64
	published chan int
	stop      context.CancelFunc
	done      sync.WaitGroup
}

func (s sdk) startPublishing(channel string) *publisher {
	ctx, cancel := context.WithCancel(context.Background())
	p := &publisher{s: s, channel: channel, published: make(chan int, many), stop: cancel}
	p.done.Go(func() {
		for n := 1; ctx.Err() == nil && n < many; n++ {
			// Not with ctx: a publish that has begun has to be counted.
			if err := servers.Main.API(context.Background(), "publish", object{"channel": channel, "data": object{"n": n}}, nil); err != nil {
				s.Errorf("publish %d: %v", n, err)
				return
			}
			p.count.Store(int64(n))
			p.published <- n
		}
	})
	s.Cleanup(func() { cancel(); p.done.Wait() })
	return p
}

func (p *publisher) more(k int) {
	p.s.Helper()
	for target := int(p.count.Load()) + k; wait.Receive(p.s, "publish", p.published) < target; {
	}
}

// finish returns the number of publications. The last one begins after the call, so all others come before it.
func (p *publisher) finish() int {
	p.s.Helper()
	p.stop()
	p.done.Wait()
	n := int(p.count.Add(1))
	p.s.api("publish", object{"channel": p.channel, "data": object{"n": n}})
	return n
}

func (s sdk) exactly(n int, publications <-chan centrifuge.PublicationEvent) {
	s.Helper()
	for want := 1; want <= n; want++ {
		pub := wait.Receive(s, "publication", publications)
		if got := s.number(pub.Data); got != want || pub.Offset != uint64(want) {
			s.Fatalf("got publication %d at offset %d, want %d of %d", got, pub.Offset, want, n)
		}
	}
	none(s, "publication", publications)
}

func recoverCuts(s sdk) {
	channel := unique("stream:")
	proxy := s.proxy(servers.Main)
	c := s.client(proxy.WS(), centrifuge.Config{})
	sub := c.subscription(channel, centrifuge.SubscriptionConfig{})
	c.open()
	first := wait.Receive(s, "subscribed", sub.subscribed)
	s.equal("recoverable and positioned", []bool{first.Recoverable, first.Positioned, first.WasRecovering}, []bool{true, true, false})

	p := s.startPublishing(channel)
	for i := range rounds {
		p.more(3) // delivered live
		if i%2 == 0 {
			proxy.Down()
			p.more(3) // missed
			proxy.Up()
		} else {
			proxy.Cut() // back at once, amid publications
		}
		e := wait.Receive(s, "subscribed again", sub.subscribed)
		s.equal("was recovering and recovered", []bool{e.WasRecovering, e.Recovered}, []bool{true, true})
	}
	s.exactly(p.finish(), sub.publications)
}

func recoverDisconnect(s sdk) {
	channel := unique("stream:")
	c := s.connect(centrifuge.Config{})
	sub := c.subscribe(channel, centrifuge.SubscriptionConfig{})
	p := s.startPublishing(channel)
	for range rounds {
		p.more(3)
		s.api("disconnect", object{"user": c.user, "disconnect": object{"code": 4100, "reason": "come back"}})
		s.equal("code", wait.Receive(s, "connecting", c.connecting).Code, 4100)
		e := wait.Receive(s, "subscribed again", sub.subscribed)
		s.equal("was recovering and recovered", []bool{e.WasRecovering, e.Recovered}, []bool{true, true})
	}
	s.exactly(p.finish(), sub.publications)
	// Of two nodes, the one that answers the API disconnects last: a client that is back on it by then is disconnected
	// again.
	if servers.Main.Nodes() == 1 {
		none(s, "reconnect", c.connecting)
	}
}

func unrecoverable(s sdk) {
	channel := unique("small:") // keeps two publications
	proxy := s.proxy(servers.Main)
	c := s.client(proxy.WS(), centrifuge.Config{})
	sub := c.subscription(channel, centrifuge.SubscriptionConfig{})
	c.open()
	wait.Receive(s, "subscribed", sub.subscribed)
	s.publish(channel, 1)
	wait.Receive(s, "publication", sub.publications)

	miss := func(from, to int) centrifuge.SubscribedEvent {
		proxy.Down()
		wait.Receive(s, "connecting", c.connecting)
		for n := from; n <= to; n++ {
			s.publish(channel, n)
		}
		proxy.Up()
		return wait.Receive(s, "subscribed again", sub.subscribed)
	}
	e := miss(2, 3)
	s.equal("two missed", []bool{e.WasRecovering, e.Recovered}, []bool{true, true})
	s.equal("recovered", s.number(wait.Receive(s, "publication", sub.publications).Data), 2)
	s.equal("recovered", s.number(wait.Receive(s, "publication", sub.publications).Data), 3)
	e = miss(4, 6)
	s.equal("three missed", []bool{e.WasRecovering, e.Recovered}, []bool{true, false})
	s.equal("position", e.StreamPosition.Offset, 6)
	s.publish(channel, 7)
	s.equal("live again", s.number(wait.Receive(s, "publication", sub.publications).Data), 7)
}

func cacheRecovery(s sdk) {
	channel := unique("latest:")
	for n := 1; n <= 3; n++ {
		s.publish(channel, n)
	}
	proxy := s.proxy(servers.Main)
	c := s.client(proxy.WS(), centrifuge.Config{})
	sub := c.subscription(channel, centrifuge.SubscriptionConfig{})
	c.open()
	wait.Receive(s, "subscribed", sub.subscribed)
	s.equal("latest at once", s.number(wait.Receive(s, "publication", sub.publications).Data), 3)
	proxy.Down()
	wait.Receive(s, "connecting", c.connecting)
	for n := 4; n <= 9; n++ {
		s.publish(channel, n)
	}
	proxy.Up()
	e := wait.Receive(s, "subscribed again", sub.subscribed)
	s.equal("was recovering and recovered", []bool{e.WasRecovering, e.Recovered}, []bool{true, true})
	s.equal("latest after being away", s.number(wait.Receive(s, "publication", sub.publications).Data), 9)
	none(s, "publication", sub.publications)
}

func tokenSubscriptions(s sdk) {
	plain, rich := unique("stream:"), unique("closed:") // a token needs no permission
	proxy := s.proxy(servers.Main)
	c := s.client(proxy.WS(), centrifuge.Config{Token: rig.Token(object{
		"sub": "x", "subs": object{plain: object{}, rich: object{"data": object{"welcome": true}}},
	})})
	c.open()
	for range 2 {
		e := wait.Receive(s, "server-side subscription", c.subscribed)
		if e.Channel == rich {
			s.equal("data", string(e.Data), `{"welcome":true}`)
		}
		s.equal("recoverable", e.Recoverable, e.Channel == plain)
	}
	s.publish(rich, 1)
	s.equal("channel", wait.Receive(s, "publication", c.publications).Channel, rich)

	p := s.startPublishing(plain)
	for range rounds {
		p.more(2)
		proxy.Down()
		p.more(2)
		proxy.Up()
		for range 2 {
			if e := wait.Receive(s, "subscribed again", c.subscribed); e.Channel == plain {
				s.equal("was recovering and recovered", []bool{e.WasRecovering, e.Recovered}, []bool{true, true})
			}
		}
	}
	total := p.finish()
	for want := 1; want <= total; want++ {
		pub := wait.Receive(s, "publication", c.publications)
		s.equal("publication", s.number(pub.Data), want)
		s.equal("offset", pub.Offset, want)
	}
	none(s, "publication", c.publications)
}

func apiSubscriptions(s sdk) {
	channel := unique("room:")
	c := s.connect(centrifuge.Config{})
	s.api("subscribe", object{
		"user": c.user, "channel": channel, "data": object{"by": "api"}, "info": object{"seat": 1},
		"override": object{"force_push_join_leave": object{"value": true}},
	})
	e := wait.Receive(s, "subscribed", c.subscribed)
	s.equal("channel and data", e.Channel+" "+string(e.Data), channel+` {"by":"api"}`)
	s.equal("own join", string(wait.Receive(s, "join", c.joins).ChanInfo), `{"seat":1}`)
	s.publish(channel, 1)
	s.equal("publication", s.number(wait.Receive(s, "publication", c.publications).Data), 1)
	s.api("unsubscribe", object{"user": c.user, "channel": channel})
	s.equal("unsubscribed", wait.Receive(s, "unsubscribed", c.unsubscribed), channel)

	own := c.subscribe(channel, centrifuge.SubscriptionConfig{})
	s.api("unsubscribe", object{"user": c.user, "channel": channel})
	s.equal("client-side as well", wait.Receive(s, "unsubscribed", own.unsubscribed), centrifuge.UnsubscribedEvent{Code: 2000, Reason: "server unsubscribe"})
}
