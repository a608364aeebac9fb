package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/transporttest"
)

// client is a transporttest.Client.
type client struct {
	net.Conn
	in *bufio.Reader
}

func (c *client) Send(message []byte) error {
	_, err := c.Write(append(message, '\n'))
	return err
}

func (c *client) Receive() ([]byte, error) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var r protocol.Reply
	if _, err := codec.ForClient(protocol.JSON).DecodeReply(line, &r); err == nil && r.Push != nil && r.Push.Disconnect != nil {
		return nil, *r.Push.Disconnect
	}
	return line[:len(line)-1], nil
}

// listen serves the connections of a listener until the test ends, and returns how to connect.
func listen(t *testing.T, node transport.Acceptor) func() (transporttest.Client, error) {
	ln, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = Serve(context.Background(), ln, node)
	}()
	t.Cleanup(func() {
		ln.Close()
		<-served
	})
	return func() (transporttest.Client, error) {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return nil, err
		}
		return &client{nc, bufio.NewReader(nc)}, nil
	}
}

// The suite finds what is wrong with a transport; this is the whole call.
func TestContract(t *testing.T) {
	t.Run("goroutines", func(t *testing.T) { transporttest.Run(t, listen) })
	t.Run("loops", func(t *testing.T) { transporttest.RunOnLoops(t, listen) })
}

func TestNews(t *testing.T) {
	for name, goroutines := range map[string]bool{"loops": false, "goroutines": true} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.GoroutineDriver = goroutines
			testNews(t, cfg)
		})
	}
}

// testNews lets two clients talk by way of a node.
func testNews(t *testing.T, cfg gyro.Config) {
	node, err := newNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	connect := listen(t, node)
	t.Cleanup(func() {
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	reader, writer := open(t, connect), open(t, connect)
	reader.say(t, `{"id":2,"subscribe":{"channel":"news"}}`, `{"id":2,"subscribe":{}}`)
	reader.say(t, `{"id":3,"subscribe":{"channel":"other"}}`, `{"id":3,"error":{"code":103,"message":"permission denied"}}`)
	writer.say(t, `{"id":2,"publish":{"channel":"news","data":{"text":"Hello"}}}`, `{"id":2,"publish":{}}`)
	reader.hear(t, `"pub":{"data":{"text":"Hello"}`)
	for c := range node.Clients(t.Context(), nil) {
		if got := c.Transport().Name; got != "lines" {
			t.Errorf("a client came by %q", got)
		}
	}
}

// open connects a client to the node.
func open(t *testing.T, connect func() (transporttest.Client, error)) *client {
	t.Helper()
	some, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	c := some.(*client)
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := c.Send([]byte(`{"id":1,"connect":{}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(); err != nil {
		t.Fatal(err)
	}
	return c
}

// say sends a command, and waits for its reply.
func (c *client) say(t *testing.T, command, reply string) {
	t.Helper()
	if err := c.Send([]byte(command)); err != nil {
		t.Fatal(err)
	}
	c.hear(t, reply)
}

func (c *client) hear(t *testing.T, want string) {
	t.Helper()
	if got, err := c.Receive(); err != nil || !strings.Contains(string(got), want) {
		t.Fatalf("received %s, %v, want %s", got, err, want)
	}
}

// A client that sends a line without an end hears why it must go.
func TestLongLine(t *testing.T) {
	node, err := newNode(config())
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, listen(t, node))
	t.Cleanup(func() { _ = node.Shutdown(context.Background()) })
	if err := c.Send(make([]byte, maxLine+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(); !errors.Is(err, protocol.DisconnectBadRequest) {
		t.Errorf("the client received %v", err)
	}
}
