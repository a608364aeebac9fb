package rig

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy relays TCP connections to a server and can do to them what networks do.
// Its methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	targets  []string
	turn     atomic.Uint32
	sent     atomic.Int64

	mu    sync.Mutex
	down  bool
	links map[*link]struct{}
	// open is closed while bytes may pass, and delay is how long they take.
	open  chan struct{}
	delay time.Duration
}

// link is one relayed connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	muted          atomic.Bool
}

// NewProxy relays from a free port of 127.0.0.1 to targets (host:port), one connection
// each in turn. A target that refuses is passed over.
func NewProxy(targets ...string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, targets: targets, links: make(map[*link]struct{}), open: make(chan struct{})}
	close(p.open)
	go p.accept()
	return p, nil
}

// Addr is the host and port that the proxy takes connections on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// WS is the address of the server's WebSocket endpoint as seen through the proxy.
func (p *Proxy) WS() string { return "ws://" + p.Addr() + "/connection/websocket" }

// Cut breaks all connections with a TCP reset: what is under way is lost.
func (p *Proxy) Cut() { p.set(p.isDown()) }

// Down breaks all connections and refuses new ones until Up.
func (p *Proxy) Down() { p.set(true) }

// Up takes connections again.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// Mute swallows whatever the present connections send in either direction, without
// closing them; new connections work.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.muted.Store(true)
	}
}

// Hold keeps back all bytes, and the ends of connections, of present and new
// connections: a network that has gone silent. Release lets everything go on, as TCP
// does when the network is back.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// Release ends Hold.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Delay has whatever is sent from now on, in either direction, take d longer; 0 ends
// that. While something is on its way, its sender's next bytes wait behind it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// passage returns when bytes may pass.
func (p *Proxy) passage() {
	p.mu.Lock()
	open, delay := p.open, p.delay
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	<-open
}

// Sent is how many bytes servers have sent to clients so far, over all connections.
// What a client has received is counted.
func (p *Proxy) Sent() int64 { return p.sent.Load() }

// Close breaks all connections and ends the proxy.
func (p *Proxy) Close() {
	_ = p.listener.Close() // nothing can be done about it
	p.Down()
	p.Release()
}

func (p *Proxy) isDown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

func (p *Proxy) set(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for l := range p.links {
		l.reset()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		go p.relay(c)
	}
}

// dial connects to the next target that accepts.
func (p *Proxy) dial() (c net.Conn, err error) {
	for range p.targets {
		if c, err = net.Dial("tcp", p.targets[int(p.turn.Add(1)-1)%len(p.targets)]); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func (p *Proxy) relay(client net.Conn) {
	server, err := p.dial()
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server}
	p.mu.Lock()
	down := p.down
	if !down {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	if down {
		l.reset()
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(server, client, new(atomic.Int64)) })
	pumps.Go(func() { l.pump(client, server, &p.sent) })
	pumps.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pump copies until either side ends, and then ends both; count is advanced before
// the bytes can arrive.
func (l *link) pump(dst, src net.Conn, count *atomic.Int64) {
	buf := make([]byte, 16<<10)
	for {
		n, err := src.Read(buf)
		l.proxy.passage()
		if n > 0 && !l.muted.Load() {
			count.Add(int64(n))
			if _, err := dst.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	if l.muted.Load() {
		// A silent network does not pass on the end of a connection either.
		_ = src.Close()
		return
	}
	l.close()
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// reset closes both ends so that unsent data is discarded.
func (l *link) reset() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // best effort: a plain close cuts as well
		}
	}
	l.close()
}
