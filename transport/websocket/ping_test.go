package websocket

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// pipeWriter hands one end of a pipe to a handler, which then runs in virtual
// time with a stream that cannot do without waiting.
type pipeWriter struct {
	*httptest.ResponseRecorder
	nc net.Conn
}

func (w pipeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.nc, bufio.NewReadWriter(bufio.NewReader(w.nc), bufio.NewWriter(w.nc)), nil
}

func pipe(t *testing.T, cfg Config, target string) (*testClient, *testPeer) {
	s := &testServer{t: t, peers: make(chan *testPeer, 1)}
	server, client := net.Pipe()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {testKey},
	}
	go NewHandler(s, cfg).ServeHTTP(pipeWriter{httptest.NewRecorder(), server}, r)
	c := &testClient{t: t, nc: client, r: bufio.NewReader(client)}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatalf("handshake: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("handshake: status %d", resp.StatusCode)
	}
	return c, <-s.peers
}

var ping = frame{Fin: true, Op: rfc6455.OpPing}

func TestNativePing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pipe(t, Config{}, "/?cf_ws_frame_ping_pong=true")
		start := time.Now()
		for i := range 3 {
			c.expect(ping)
			if want := 25 * time.Second * time.Duration(i+1); time.Since(start) != want {
				t.Errorf("ping %d after %v", i, time.Since(start))
			}
			c.send(frame{Fin: true, Op: rfc6455.OpPong})
		}
		c.expect(ping, closeFr(3012, "no pong"))
		if got := time.Since(start); got != 110*time.Second {
			t.Errorf("given up after %v", got)
		}
		if err := <-p.closed; !errors.Is(err, protocol.DisconnectNoPong) {
			t.Errorf("Closed(%v)", err)
		}
		if got := time.Since(start); got != 110*time.Second {
			t.Errorf("the peer heard after %v", got)
		}
		c.expectEOF()
	})
}

func TestNativePingPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pipe(t, Config{}, "/?cf_ws_frame_ping_pong=true")
		c.expect(ping)
		p.conn.Pause(true)
		time.Sleep(time.Minute) // virtual
		p.conn.Pause(false)
		c.send(frame{Fin: true, Op: rfc6455.OpPong})
		c.expect(ping)
		c.nc.Close()
		<-p.closed
	})
}

func TestNoNativePing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pipe(t, Config{}, "/")
		_ = c.nc.SetReadDeadline(time.Now().Add(time.Hour))
		if f, err := c.read(); err == nil {
			t.Errorf("got %v", f)
		}
		c.nc.Close()
		<-p.closed
	})
}

// TestTimeouts: the defaults of Config on a stream that does not move.
func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(c *testClient, p *testPeer)
		code uint32
		want time.Duration
	}{
		{"write", func(_ *testClient, p *testPeer) { _, _ = p.conn.Write(frames("x")) }, 3009, time.Second},
		{"close frame", func(_ *testClient, p *testPeer) { p.conn.Close(protocol.DisconnectExpired, nil) }, 3005, time.Second},
		{"close", func(c *testClient, p *testPeer) {
			p.conn.Close(protocol.DisconnectExpired, nil)
			c.expect(closeFr(3005, "connection expired"))
		}, 3005, 5 * time.Second},
		{"quiet close", func(_ *testClient, p *testPeer) { p.conn.Close(protocol.Disconnect{}, nil) }, 0, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := pipe(t, Config{}, "/")
				start := time.Now()
				tt.end(c, p)
				err := <-p.closed
				if got := time.Since(start); got != tt.want {
					t.Errorf("took %v, want %v", got, tt.want)
				}
				if d, ok := errorAs[protocol.Disconnect](err); !ok || d.Code != tt.code {
					t.Errorf("Closed(%v), want %d", err, tt.code)
				}
				c.expectEOF()
			})
		})
	}
}

// TestWritable on a stream that is always written in the background.
func TestWritableInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pipe(t, Config{}, "/")
		long := testText(stashSize)
		list := frames(long, "b", "c")
		n, err := p.conn.Write(list)
		if err != nil || n != len(list[0]) {
			t.Errorf("took %d, %v, want the first frame", n, err)
		}
		go func() { // the client reads
			c.expect(text(long), text("b"), text("c"))
			c.nc.Close()
		}()
		<-p.writable
		if n, err := p.conn.Write(list[1:]); n != 6 || err != nil {
			t.Errorf("took %d, %v", n, err)
		}
		<-p.closed
		if len(p.writable) != 0 {
			t.Error("Writable without need")
		}
	})
}
