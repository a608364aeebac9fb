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
)

// ways proves that publications on the other servers of a NATS cluster arrive here. The
// keeper's canary goes by the server of this node alone, so it does not show that a route
// between two servers is cut. So ways connects to each server that the configuration names
// or that the server announces, and publishes a canary there each second. If a server
// answers a ping behind the canary, and the canary does not arrive, the route from that
// server is broken. A server that does not answer proves nothing: it may have ended.
type ways struct {
	b       *Broker
	subject string
	sub     *natsio.Subscription

	mu   sync.Mutex
	list map[string]*way // by host
	last uint64          // the newest number of a way
}

// way watches one other server.
type way struct {
	*ways
	number uint64
	host   string
	url    string
	listed atomic.Bool   // the server is configured or announced
	sent   uint64        // the last canary that was published
	seen   atomic.Uint64 // the last canary that arrived
	cut    atomic.Bool   // the route is broken
	away   atomic.Bool   // the server cannot be reached
}

const (
	// answerWithin is how long a server may take to answer the ping behind a canary.
	answerWithin = time.Second
	// maxWays bounds the servers that are watched.
	maxWays = 64
	// forgetWay is how long a server that is not listed any more is tried.
	forgetWay = 10 * time.Minute
	// maxWayPause is the longest pause between attempts to connect. The pause doubles
	// maxDoublings times at most.
	maxWayPause  = 10 * time.Second
	maxDoublings = 8
)

func newWays(b *Broker, subject string) *ways {
	return &ways{b: b, subject: subject, list: make(map[string]*way)}
}

// subscribe makes sure that canaries arrive.
func (s *ways) subscribe(conn *natsio.Conn) error {
	if s.sub.IsValid() {
		return nil
	}
	var err error
	if s.sub, err = conn.Subscribe(s.subject, s.sight); err != nil {
		return fmt.Errorf("subscribing to %s: %w", s.subject, err)
	}
	return nil
}

// canary returns the next canary: the number of its way, and its own.
func (w *way) canary() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, w.number), w.sent)
}

func (s *ways) sight(m *natsio.Msg) {
	if len(m.Data) != 16 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.list {
		if w.number == binary.BigEndian.Uint64(m.Data) {
			w.seen.Store(binary.BigEndian.Uint64(m.Data[8:]))
		}
	}
}

// update watches the servers that the NATS client knows.
func (s *ways) update(conn *natsio.Conn) {
	hosts := make(map[string]string)
	for _, server := range conn.Servers() {
		if u, err := url.Parse(server); err == nil {
			hosts[u.Host] = server
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for host, w := range s.list {
		_, listed := hosts[host]
		w.listed.Store(listed)
	}
	own, err := url.Parse(conn.ConnectedUrl())
	if err != nil {
		return // there is no connection
	}
	for host, server := range hosts {
		if host == own.Host || s.list[host] != nil || len(s.list) >= maxWays {
			continue
		}
		s.last++
		w := &way{ways: s, number: s.last, host: host, url: server}
		w.listed.Store(true)
		s.list[host] = w
		s.b.keeper.wg.Go(w.run)
	}
}

// err tells from which servers the route is broken.
func (s *ways) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hosts []string
	for _, w := range s.list {
		if w.cut.Load() {
			hosts = append(hosts, w.host)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	slices.Sort(hosts)
	return fmt.Errorf("nats: what is published on server %q does not arrive: its route to the server of this node is broken", hosts)
}

// run watches a server until it is not listed any more.
func (w *way) run() {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.list, w.host)
	}()
	failed := time.Time{}
	for attempt := 0; ; attempt++ {
		conn, err := w.connect()
		w.reached(err)
		if err == nil {
			failed = time.Now()
			if attempt = 0; w.watch(conn) {
				attempt = maxDoublings // there is no hurry
			}
			conn.Close()
		}
		w.cut.Store(false)
		switch {
		case failed.IsZero() || w.listed.Load():
			failed = time.Now()
		case time.Since(failed) > forgetWay:
			return
		}
		if !w.b.keeper.sleep(min(pause(0)<<min(attempt, maxDoublings), maxWayPause)) {
			return
		}
	}
}

// reached notes whether the server could be connected to. One that cannot has ended, or is cut off with its nodes: that
// looks the same from here.
func (w *way) reached(err error) {
	select {
	case <-w.b.closing:
		return
	default:
	}
	if was := w.away.Swap(err != nil); err != nil && !was {
		w.b.log.Warn("a server of the NATS cluster cannot be reached", "engine", w.b.part, "server", w.host, "error", err)
	} else if was && err == nil {
		w.b.log.Info("the server of the NATS cluster can be reached again", "engine", w.b.part, "server", w.host)
	}
}

// unreachable counts the servers that cannot be reached.
func (s *ways) unreachable() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.list {
		if w.away.Load() {
			n++
		}
	}
	return n
}

// connect connects to the server, and to no other.
func (w *way) connect() (*natsio.Conn, error) {
	b := w.b
	o, err := b.options()
	if err != nil {
		return nil, err
	}
	o.Servers, o.Name = []string{w.url}, "gyro canary"
	o.CustomDialer, o.AllowReconnect, o.IgnoreDiscoveredServers = nil, false, true
	o.DisconnectedErrCB, o.ReconnectErrCB, o.ReconnectedCB, o.ClosedCB, o.DiscoveredServersCB = nil, nil, nil, nil, nil
	o.AsyncErrorCB = func(*natsio.Conn, *natsio.Subscription, error) {} // by default, errors are printed
	if main := b.conn.Load(); main.TLSRequired() {
		// Like the NATS client with announced servers, use the name of the first server.
		if o.Secure = true; o.TLSConfig == nil {
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

// watch sends canaries until the server does not answer any more. It returns true if the
// server is the one that this node is connected to.
func (w *way) watch(conn *natsio.Conn) (same bool) {
	b := w.b
	var over uint64 // the connection over which canaries come
	for b.keeper.sleep(b.keeper.period) {
		flowing, main := b.dialer.flowing.Load(), b.conn.Load()
		if flowing == 0 {
			over = 0
			w.cut.Store(false)
			continue
		}
		if main.ConnectedServerId() == conn.ConnectedServerId() {
			return true
		}
		if flowing != over {
			over = flowing
			w.seen.Store(w.sent)
		}
		w.sent++
		if conn.Publish(w.subject, w.canary()) != nil || conn.FlushTimeout(answerWithin) != nil {
			return false
		}
		late := w.sent > w.seen.Load()+missing
		if was := w.cut.Swap(late); late && !was {
			b.log.Warn("route between NATS servers is broken", "engine", b.part, "from", w.host, "to", main.ConnectedAddr())
		} else if was && !late {
			b.log.Info("route between NATS servers works again", "engine", b.part, "from", w.host)
		}
	}
	return false
}
