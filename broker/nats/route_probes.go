package nats

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/logging"
)

// routeProbes prove that publications on the other servers of a NATS cluster arrive here. The canary of the monitor
// passes one server, so it does not show that a route between two is cut. So each server that the configuration names or
// a server announces has a probe, which publishes a canary there each second. If the server answers a ping behind the
// canary and the canary does not arrive, the route is broken. A server that does not answer proves nothing: it may have
// ended.
type routeProbes struct {
	b       *Broker
	subject string
	sub     *natsio.Subscription

	mu   sync.Mutex
	list map[string]*routeProbe // by host
	last uint64                 // the newest number of a probe
}

type routeProbe struct {
	*routeProbes
	number uint64
	host   string
	url    string
	listed atomic.Bool    // the server is configured or announced
	sent   uint64         // the last canary that was published
	seen   atomic.Uint64  // the last canary that arrived
	broken atomic.Bool    // the route is broken
	outage logging.Outage // the server cannot be reached
}

const (
	// answerWithin bounds the answer to the ping behind a canary.
	answerWithin = time.Second
	maxProbes    = 64
	// forgetProbe is how long an unlisted server is tried.
	forgetProbe = 10 * time.Minute
	// maxProbePause bounds the pause between attempts to connect, which doubles maxDoublings times at most.
	maxProbePause = 10 * time.Second
	maxDoublings  = 8
)

func newRouteProbes(b *Broker, subject string) *routeProbes {
	return &routeProbes{b: b, subject: subject, list: make(map[string]*routeProbe)}
}

func (p *routeProbes) subscribe(conn *natsio.Conn) error {
	if p.sub.IsValid() {
		return nil
	}
	var err error
	if p.sub, err = conn.Subscribe(p.subject, p.canaryArrived); err != nil {
		return fmt.Errorf("subscribing to %s: %w", p.subject, err)
	}
	return nil
}

// canary returns the next canary: the number of its probe, and its own.
func (p *routeProbe) canary() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.number), p.sent)
}

func (p *routeProbes) canaryArrived(msg *natsio.Msg) {
	if len(msg.Data) != 16 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, probe := range p.list {
		if probe.number == binary.BigEndian.Uint64(msg.Data) {
			probe.seen.Store(binary.BigEndian.Uint64(msg.Data[8:]))
		}
	}
}

func (p *routeProbes) update(conn *natsio.Conn) {
	hosts := make(map[string]string)
	for _, server := range conn.Servers() {
		if u, err := url.Parse(server); err == nil {
			hosts[u.Host] = server
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for host, probe := range p.list {
		_, listed := hosts[host]
		probe.listed.Store(listed)
	}
	own, err := url.Parse(conn.ConnectedUrl())
	if err != nil {
		return // there is no connection
	}
	for host, server := range hosts {
		if host == own.Host || p.list[host] != nil || len(p.list) >= maxProbes {
			continue
		}
		p.last++
		probe := &routeProbe{routeProbes: p, number: p.last, host: host, url: server}
		probe.listed.Store(true)
		p.list[host] = probe
		p.b.monitor.wg.Go(probe.run)
	}
}

// err names the servers whose route to here is broken.
func (p *routeProbes) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hosts []string
	for _, probe := range p.list {
		if probe.broken.Load() {
			hosts = append(hosts, probe.host)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	slices.Sort(hosts)
	return fmt.Errorf("nats: what is published on server %q does not arrive: its route to the server of this node is broken", hosts)
}

func (p *routeProbe) run() {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.list, p.host)
	}()
	failed := time.Time{}
	for attempt := 0; ; attempt++ {
		conn, err := p.connect()
		p.reached(err)
		if err == nil {
			failed = time.Now()
			attempt = 0
			if p.watch(conn) {
				attempt = maxDoublings // there is no hurry
			}
			conn.Close()
		}
		p.broken.Store(false)
		switch {
		case failed.IsZero() || p.listed.Load():
			failed = time.Now()
		case time.Since(failed) > forgetProbe:
			return
		}
		if !enginekit.Sleep(p.b.lifetime, min(enginekit.ConnectPause(0)<<min(attempt, maxDoublings), maxProbePause)) {
			return
		}
	}
}

// reached notes whether the server could be connected to. One that cannot has ended, or is cut off with its nodes: that
// looks the same.
func (p *routeProbe) reached(err error) {
	if p.b.lifetime.Err() != nil {
		return
	}
	if err != nil {
		if p.outage.Fail(err) == 1 {
			p.b.log.Warn("a server of the NATS cluster cannot be reached", "engine", p.b.part, "server", p.host, "error", err)
		}
	} else if failures, _ := p.outage.End(); failures > 0 {
		p.b.log.Info("the server of the NATS cluster can be reached again", "engine", p.b.part, "server", p.host)
	}
}

func (p *routeProbes) unreachableCount() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, probe := range p.list {
		if probe.outage.Err() != nil {
			n++
		}
	}
	return n
}

func (p *routeProbe) connect() (*natsio.Conn, error) {
	b := p.b
	o, err := b.options()
	if err != nil {
		return nil, err
	}
	o.Servers, o.Name = []string{p.url}, "gyro canary"
	o.CustomDialer, o.AllowReconnect, o.IgnoreDiscoveredServers = nil, false, true
	o.DisconnectedErrCB, o.ReconnectErrCB, o.ReconnectedCB, o.ClosedCB, o.DiscoveredServersCB = nil, nil, nil, nil, nil
	o.AsyncErrorCB = func(*natsio.Conn, *natsio.Subscription, error) {} // by default, errors are printed
	if main := b.conn.Load(); main.TLSRequired() {
		// Like the NATS client with announced servers, use the name of the first server.
		o.Secure = true
		if o.TLSConfig == nil {
			o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if u, err := url.Parse(main.ConnectedUrl()); err == nil && o.TLSConfig.ServerName == "" {
			o.TLSConfig.ServerName = u.Hostname()
		}
	}
	if u := b.cfg.userInURL(); u != nil && o.User == "" && o.Token == "" {
		if password, ok := u.Password(); ok {
			o.User, o.Password = u.Username(), password
		} else {
			o.Token = u.Username()
		}
	}
	return o.Connect()
}

// watch sends canaries until the server does not answer. It returns true if this node is connected to that server.
func (p *routeProbe) watch(conn *natsio.Conn) (same bool) {
	b := p.b
	var over uint64 // the connection over which canaries come
	for enginekit.Sleep(b.lifetime, b.monitor.period) {
		flowing, main := b.dialer.flowing.Load(), b.conn.Load()
		if flowing == 0 {
			over = 0
			p.broken.Store(false)
			continue
		}
		if main.ConnectedServerId() == conn.ConnectedServerId() {
			return true
		}
		if flowing != over {
			over = flowing
			p.seen.Store(p.sent)
		}
		p.sent++
		if conn.Publish(p.subject, p.canary()) != nil || conn.FlushTimeout(answerWithin) != nil {
			return false
		}
		late := p.sent > p.seen.Load()+missing
		if was := p.broken.Swap(late); late && !was {
			b.log.Warn("route between NATS servers is broken", "engine", b.part, "from", p.host, "to", main.ConnectedAddr())
		} else if was && !late {
			b.log.Info("route between NATS servers works again", "engine", b.part, "from", p.host)
		}
	}
	return false
}
