package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestServerAcceptsAndIsSilent: the error says for how long the server has not answered, and not that this process has closed the
// connection then.
func TestServerAcceptsAndIsSilent(t *testing.T) {
	t.Parallel()
	ask := func(c *Client) error { _, err := c.primary(t.Context()); return err }
	pubSub := func(c *Client) error { _, err := c.DialPubSub(t.Context(), -1); return err }
	commands := func(c *Client) error {
		_, err := c.dialCommands(t.Context(), c.opts.Addresses[0], nil, c.opts.TLS)
		return err
	}
	owner := func(c *Client) error { _, err := c.askOwner(t.Context(), c.opts.Addresses[0], 1); return err }
	const whole, part = "no answer within 400ms", "no answer within 100ms"
	insecure := &tls.Config{InsecureSkipVerify: true}
	for name, tt := range map[string]struct {
		do   func(c *Client) error
		opts Options
		want string
	}{
		"Sentinel":                   {ask, Options{Sentinel: true}, part},
		"Sentinel, with a password":  {ask, Options{Sentinel: true, SentinelPassword: "secret"}, part},
		"Sentinel, with a name":      {ask, Options{Sentinel: true, SentinelClientName: "gyro"}, part},
		"Sentinel, over TLS":         {ask, Options{Sentinel: true, SentinelTLS: insecure}, part},
		"PUB/SUB, by Sentinel":       {pubSub, Options{Sentinel: true}, part},
		"PUB/SUB, over TLS":          {pubSub, Options{TLS: insecure}, whole},
		"commands":                   {commands, Options{}, whole},
		"commands, with a password":  {commands, Options{Password: "secret"}, whole},
		"commands, over TLS":         {commands, Options{TLS: insecure}, whole},
		"commands, by Sentinel":      {commands, Options{Sentinel: true}, part},
		"a node of a Cluster":        {owner, Options{Cluster: true}, part},
		"a node of a Cluster, login": {owner, Options{Cluster: true, Password: "secret"}, part},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := tt.opts
			opts.Name, opts.Addresses = "shard 0", []string{silentServer(t)}
			opts.ConnectTimeout, opts.IOTimeout = time.Minute, 400*time.Millisecond
			c := &Client{opts: opts, cluster: opts.Cluster, ctx: t.Context()}
			for {
				err := tt.do(c)
				if err == nil {
					t.Fatal("a silent server has answered")
				}
				if strings.Contains(err.Error(), "dial tcp") {
					continue // this process got no time to connect
				}
				if !strings.HasSuffix(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
		})
	}
}

// silentServer accepts connections, and says nothing.
func silentServer(t *testing.T) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			defer client.Close()
		}
	}()
	return listener.Addr().String()
}

// TestDialogEndsForAnotherCall: a call that makes a connection ends, while other calls wait for the same connection. The error tells the
// other calls that one of them has to make the connection.
func TestDialogEndsForAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		c := &Client{servers: map[string]string{}}
		go io.Copy(io.Discard, far)
		err := c.identify(ctx, near, "")
		if !c.failedForAnother(t.Context(), err) {
			t.Errorf("%v", err)
		}
	})
}

// TestEndings: calls that wait when this process closes a connection get to know why.
func TestEndings(t *testing.T) {
	t.Parallel()
	const old, new = "10.0.0.1:6379", "10.0.0.2:6379"
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		opts Options
		end  func(c *Client, t *trackedConn)
		want string
	}{
		"another primary": {Options{Sentinel: true}, func(c *Client, _ *trackedConn) { c.dropOthers(new) }, "the primary is 10.0.0.2:6379 now"},
		"a replica":       {Options{Sentinel: true}, func(c *Client, _ *trackedConn) { c.drop(errors.New("READONLY")) }, "READONLY"},
		"silence": {Options{IOTimeout: time.Second}, func(c *Client, conn *trackedConn) {
			conn.waits.Store(true)
			c.checkConnections(1)
			c.checkConnections(1)
		}, "no answer within 1s"},
		"a ping of rueidis": {Options{Cluster: true, IOTimeout: time.Second}, func(_ *Client, conn *trackedConn) {
			conn.waits.Store(true)
			conn.Close()
		}, "no answer within 500ms"},
		"a write that failed": {Options{Cluster: true}, func(_ *Client, conn *trackedConn) {
			conn.waits.Store(true)
			if err := conn.ended(broken); !errors.Is(err, broken) {
				t.Error(err)
			}
			conn.Close()
		}, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			c := &Client{opts: tt.opts, cluster: tt.opts.Cluster, ctx: t.Context(), commands: map[*trackedConn]struct{}{}}
			conn := &trackedConn{Conn: near, client: c, address: old}
			conn.ready.Store(true)
			c.track(conn)
			tt.end(c, conn)
			if _, err := conn.Read(make([]byte, 1)); err == nil || err.Error() != tt.want {
				t.Errorf("read: %v, want %s", err, tt.want)
			}
			if _, err := conn.Write([]byte("PING")); err == nil || err.Error() != tt.want {
				t.Errorf("write: %v, want %s", err, tt.want)
			}
		})
	}
}

// TestPubSubEndsForAnotherPrimary: the loss of the connection that is logged has a reason.
func TestPubSubEndsForAnotherPrimary(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	c := &Client{pubSub: map[*pubSubConn]struct{}{}}
	p := &pubSubConn{Conn: near, client: c, address: "10.0.0.1:6379"}
	c.pubSub[p] = struct{}{}
	c.dropOthers("10.0.0.2:6379")
	const want = "the primary is 10.0.0.2:6379 now"
	if _, err := p.Read(make([]byte, 1)); err == nil || err.Error() != want {
		t.Errorf("read: %v, want %s", err, want)
	}
	if _, err := p.Write([]byte("PING")); err == nil || err.Error() != want {
		t.Errorf("write: %v, want %s", err, want)
	}
}
