package app

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/proxytest"
)

var failing = flag.Duration("failing", 3*time.Second, "how long TestFailingBackend goes on")

// flaky is a backend that fails a fifth of the calls, in all ways.
type flaky struct {
	asked, failed map[string]*atomic.Int64 // by event
}

func (b *flaky) decide(event, _ string) (*proxytest.Fault, string) {
	b.asked[event].Add(1)
	if rand.IntN(5) == 0 {
		b.failed[event].Add(1)
		f := rand.IntN(len(proxytest.Faults))
		return &proxytest.Faults[f], ""
	}
	switch event {
	case "Connect", "Subscribe", "Refresh", "SubRefresh":
		return nil, fmt.Sprintf(`{"result":{"expire_at":%d}}`, time.Now().Unix()+2)
	case "RPC":
		return nil, `{"result":{"data":{"a":"b"}}}`
	case "SharedPollRefresh":
		return nil, fmt.Sprintf(`{"result":{"items":[{"key":"k","data":%d}]}}`, rand.IntN(10))
	}
	return nil, `{"result":{}}`
}

// flakyServer is a server that asks a flaky backend about everything but the namespace plain, and in the namespace empty
// only for a publication.
type flakyServer struct {
	*testServer
	flaky
	address string // of the backend
	carrier proxytest.Carrier
}

func startFlaky(t *testing.T, c proxytest.Carrier) *flakyServer {
	s := &flakyServer{carrier: c, flaky: flaky{asked: map[string]*atomic.Int64{}, failed: map[string]*atomic.Int64{}}}
	for event := range proxyMethods {
		s.asked[event], s.failed[event] = new(atomic.Int64), new(atomic.Int64)
	}
	s.address = c.Start(t, eventsOf(c, s.decide)).Listener.Addr().String()
	s.testServer = startServerAt(t, "info", s.config(500*time.Millisecond))
	s.expected = "backend|polling"
	if *failing > time.Minute {
		s.logs.Discard()
	}
	return s
}

func (s *flakyServer) config(timeout time.Duration) func(*config.Config) {
	return asks(s.carrier, s.address, func(cfg *config.Config) {
		for _, p := range []*config.Proxy{
			&cfg.Client.Proxy.Connect.Proxy, &cfg.Client.Proxy.Refresh.Proxy, &cfg.Channel.Proxy.Subscribe, &cfg.Channel.Proxy.Publish,
			&cfg.Channel.Proxy.SubRefresh, &cfg.Channel.Proxy.CacheEmpty, &cfg.RPC.Proxy,
			&cfg.Channel.Proxy.MapPublish, &cfg.Channel.Proxy.MapRemove, &cfg.Channel.Proxy.SharedPollRefresh,
		} {
			p.Timeout = timeout
		}
		cfg.Client.Proxy.Refresh.Enabled = true
		cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
		cfg.Client.PresenceInterval, cfg.Client.ExpiredSubCloseDelay = 200*time.Millisecond, time.Millisecond
		addNamespace(cfg, "plain", open)
		cfg.SharedPoll.HMACSecretKey = "poll-secret"
		cfg.Channel.Proxy.SharedPollRefresh.Endpoint = s.carrier.Endpoint(s.address, "SharedPollRefresh")
		addNamespace(cfg, "poll", func(o *config.ChannelOptions) {
			open(o)
			o.SubscriptionType, o.SharedPoll.RefreshInterval = config.TypeSharedPoll, 100*time.Millisecond
		})
		addNamespace(cfg, "map", func(o *config.ChannelOptions) {
			mapOn(o)
			o.Map.PublishProxyEnabled, o.Map.RemoveProxyEnabled = true, true
		})
		addNamespace(cfg, "empty", func(o *config.ChannelOptions) {
			open(o)
			o.ForceRecovery, o.ForceRecoveryMode, o.AutoCacheRecover, o.CacheEmptyProxyEnabled = true, "cache", true, true
		})
	})
}

// warm makes what a server makes with its first clients. They do not ask the backend.
func (s *flakyServer) warm(clients int) {
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c, err := s.dialCheap()
			if err != nil {
				s.t.Error(err)
				return
			}
			defer c.close()
			err = errors.Join(c.call(`"connect":{`+s.tokenField(jwt.MapClaims{"sub": "u"})+`}`),
				c.call(`"subscribe":{"channel":"plain:a"}`), c.call(`"publish":{"channel":"plain:a","data":{}}`))
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	wg.Wait()
	s.awaitClients(0)
}

// renew replaces all proxies by a reload. The new ones have asked nobody yet, as at the beginning.
func (s *flakyServer) renew() {
	next := testConfig(s.config(501 * time.Millisecond))
	next.HTTPServer = s.cfg.HTTPServer
	if err := s.app.Reload(next); err != nil {
		s.t.Error(err)
	}
}

// soul is a client that lives for a while, and ends in one of several ways.
type soul struct {
	s        *flakyServer
	c        *cheapClient
	r        *rand.Rand
	ok, lost *atomic.Int64
	end      time.Time // of the test
}

// try makes a call until the backend answers, with pauses as a person's, and reports false if the
// client cannot go on.
func (o *soul) try(command string) bool {
	for {
		err := o.c.call(command)
		time.Sleep(time.Duration(o.r.IntN(100)) * time.Millisecond)
		refused := new(protocol.Error)
		switch {
		case err == nil:
			o.ok.Add(1)
			return true
		case errors.As(err, &refused) && refused.Code == protocol.ErrorInternal.Code:
			o.lost.Add(1)
		default:
			o.s.t.Errorf("%s: %v", command, err)
			return false
		}
	}
}

// connect connects until the backend answers: each time with a new connection.
func (o *soul) connect() bool {
	for {
		var err error
		if o.c, err = o.s.dialCheap(); err != nil {
			o.s.t.Error(err)
			return false
		}
		refused := new(protocol.Error)
		err = o.c.call(`"connect":{}`)
		if err == nil {
			return true
		}
		o.c.close()
		if !errors.As(err, &refused) || refused.Code != protocol.ErrorInternal.Code {
			o.s.t.Error(err)
			return false
		}
		o.lost.Add(1)
	}
}

func (o *soul) live() {
	if !o.connect() {
		return
	}
	defer o.c.close()
	o.c.pushes = func(p *protocol.Push) {
		if p.Unsubscribe != nil {
			o.s.t.Errorf("unsubscribed: %+v", p.Unsubscribe)
		}
	}
	if !o.try(`"subscribe":{"channel":"a"}`) || !o.try(`"subscribe":{"channel":"b"}`) {
		return
	}
	if !o.try(fmt.Sprintf(`"subscribe":{"channel":"empty:%d"}`, o.r.IntN(100))) {
		return
	}
	signature := auth.SignTrack("poll-secret", "", "poll:x", []string{"k"}, time.Now().Unix(), 0)
	if !o.try(`"subscribe":{"channel":"poll:x","type":4}`) || !o.try(trackKeys(signature, `{"key":"k"}`)) {
		return
	}
	for n := 10 + o.r.IntN(60); n > 0 && time.Now().Before(o.end); n-- {
		entry := fmt.Sprintf(`"publish":{"channel":"map:a","type":1,"key":"%d",`, o.r.IntN(20))
		if !o.try(entry+`"data":{}}`) || !o.try(entry+`"removed":true}`) {
			return
		}
		if !o.try(`"publish":{"channel":"a","data":{"n":1}}`) || !o.try(`"rpc":{"method":"m","data":{}}`) {
			return
		}
	}
	switch o.r.IntN(3) { // with a call under way
	case 0:
		o.c.start(`"rpc":{"method":"m"}`)
		_ = o.c.nc.(*net.TCPConn).SetLinger(0) // a reset
	case 1:
		o.c.start(`"publish":{"channel":"b","data":{}}`)
	case 2:
		o.c.start(`"unsubscribe":{"channel":"a"}`)
		o.c.start(`"subscribe":{"channel":"a"}`)
		_, _ = o.c.nc.Write(frametest.Masked(frametest.Close(1000, "")))
	}
}

// TestFailingBackend: clients live with a backend that fails a fifth of all calls, over HTTP and
// over gRPC. No client ends because of that, and in the end the server holds the descriptors,
// goroutines and memory that it began with.
func TestFailingBackend(t *testing.T) {
	const workers = 8 // for each carrier
	var servers []*flakyServer
	for _, c := range proxytest.Carriers {
		s := startFlaky(t, c)
		s.warm(workers)
		servers = append(servers, s)
	}
	before := takeStock(t)
	var ok, lost atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(*failing)
	for i := range workers * len(servers) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for time.Now().Before(end) && !t.Failed() {
				(&soul{s: servers[i%len(servers)], r: r, ok: &ok, lost: &lost, end: end}).live()
			}
		})
	}
	wg.Wait()
	for _, s := range servers {
		s.awaitClients(0)
		s.renew()
		s.check(t)
	}
	after := awaitStock(t, before)
	t.Logf("%d calls answered, %d not; before %+v, after %+v", ok.Load(), lost.Load(), before, after)
	// The heap has pools and tables of the log and of metrics that were not there before the first
	// calls. They do not grow with the time.
	if after.more(before) || after.heap > before.heap+before.heap/4+4<<20 {
		buf := make([]byte, 1<<20)
		t.Errorf("before %+v, after %+v\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

// check checks that the backend was asked about all events, and failed some calls about each.
func (b *flaky) check(t *testing.T) {
	t.Helper()
	var asked, failed int64
	for event, n := range b.asked {
		if n.Load() == 0 || n.Load() > 100 && b.failed[event].Load() == 0 {
			t.Errorf("%s: %d calls, %d failed", event, n.Load(), b.failed[event].Load())
		}
		asked, failed = asked+n.Load(), failed+b.failed[event].Load()
	}
	if failed < asked/10 || failed > asked/3 {
		t.Errorf("%d of %d calls failed", failed, asked)
	}
	t.Logf("%d calls, %d failed", asked, failed)
}
