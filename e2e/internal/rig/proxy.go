package rig

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy relays TCP connections to a server and imitates faults of networks. Any goroutine may call its methods.
type Proxy struct {
	listener net.Listener
	targets  []string
	turn     atomic.Uint32
	sent     atomic.Int64

	pairs[*pair]

	mu sync.Mutex
	// open is closed while bytes may pass; they take delay longer.
	open  chan struct{}
	delay time.Duration
}

type pair struct {
	proxy          *Proxy
	client, server net.Conn
	muted          atomic.Bool
}

// NewProxy relays connections from a free port of 127.0.0.1 to targets (host:port) in turn. It skips targets that
// refuse.
func NewProxy(targets ...string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, targets: targets, open: make(chan struct{})}
	close(p.open)
	go p.accept()
	return p, nil
}

func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// WS is the server's WebSocket endpoint through the proxy.
func (p *Proxy) WS() string { return "ws://" + p.Addr() + "/connection/websocket" }

// Freeze keeps back all bytes and the ends of all connections, present and new ones, like a network that has gone
// silent. Resume passes everything on, as TCP does when the network is back.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// Resume ends Freeze.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Delay makes everything from now on, in either direction, take d longer; 0 ends that. The next bytes of a sender wait
// until the bytes before them have passed.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) passage() {
	p.mu.Lock()
	open, delay := p.open, p.delay
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	<-open
}

// Sent counts the bytes of servers to clients, before a client can receive them.
func (p *Proxy) Sent() int64 { return p.sent.Load() }

func (p *Proxy) Close() {
	_ = p.listener.Close() // nothing can be done about it
	p.Down()
	p.Resume()
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
	c := &pair{proxy: p, client: client, server: server}
	if !p.add(c) {
		c.cut()
		return
	}
	defer p.remove(c)
	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(server, client, new(atomic.Int64)) })
	pumps.Go(func() { c.pump(client, server, &p.sent) })
	pumps.Wait()
}

// pump copies until either side ends, and then ends both; count advances before the bytes can arrive.
func (c *pair) pump(dst, src net.Conn, count *atomic.Int64) {
	buf := make([]byte, 16<<10)
	for {
		n, err := src.Read(buf)
		c.proxy.passage()
		if n > 0 && !c.muted.Load() {
			count.Add(int64(n))
			if _, err := dst.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	if c.muted.Load() {
		// A silent network does not pass on the end of a connection either.
		_ = src.Close()
		return
	}
	c.close()
}

func (c *pair) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

func (c *pair) mute() { c.muted.Store(true) }

// cut resets both ends, which discards unsent data.
func (c *pair) cut() {
	for _, end := range []net.Conn{c.client, c.server} {
		if tcp, ok := end.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // best effort: a plain close cuts as well
		}
	}
	c.close()
}
