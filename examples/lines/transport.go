package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

const (
	maxLine  = 64 << 10        // of a client
	maxQueue = 16 << 10        // that waits for a client; the rest waits in the node, which bounds it
	patience = 5 * time.Second // for a client that takes nothing
)

// lines is the framer of all connections: they share the bytes of a publication.
var lines = new(framer)

// framer ends each frame with a line break. Several messages in a frame have line breaks between them already.
type framer struct{ _ byte }

func (*framer) Encoding() protocol.Encoding { return protocol.JSON }
func (*framer) Headroom() int               { return 0 }
func (*framer) Costly() bool                { return false }
func (*framer) Frame(buf []byte) []byte     { return append(buf, '\n') }

// Serve gives the connections of a listener to a node, until the listener is closed.
func Serve(ctx context.Context, ln net.Listener, node transport.Acceptor) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		nc, err := ln.Accept()
		if err != nil {
			return err
		}
		clients.Go(func() { serve(ctx, nc, node) })
	}
}

// conn is a transport.Conn. One goroutine reads, another one writes.
type conn struct {
	nc net.Conn

	peerMu sync.Mutex // one call of the peer at a time
	peer   transport.Peer

	mu      sync.Mutex
	changed sync.Cond // of the fields below
	queue   []byte    // for the writing goroutine
	full    bool      // Write took less than all since the queue was empty
	paused  bool
	closing bool  // Close was called, or the connection is lost
	cause   error // for Peer.Closed
}

// serve lives as long as a connection.
func serve(ctx context.Context, nc net.Conn, node transport.Acceptor) {
	c := &conn{nc: nc}
	c.changed.L = &c.mu
	c.peerMu.Lock() // Writable waits until there is a peer
	peer, err := node.Accept(ctx, c, transport.Info{
		Name: "lines", Framer: lines, RemoteAddr: nc.RemoteAddr().String(), DisconnectPush: true,
	})
	c.peer = peer
	c.peerMu.Unlock()
	if err != nil {
		c.refuse(err)
	}
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		c.write()
	}()
	c.lost(c.read())
	<-writing
	nc.Close()
	if peer != nil {
		peer.Closed(c.cause)
	}
}

// refuse tells a client why the node does not accept it.
func (c *conn) refuse(err error) {
	d := protocol.DisconnectServerError
	errors.As(err, &d)
	var frames [][]byte
	push := &protocol.Reply{Push: &protocol.Push{Disconnect: &d}}
	if line, err := codec.For(protocol.JSON).AppendReply(nil, push); err == nil {
		frames = append(frames, lines.Frame(line))
	}
	c.Close(d, frames)
}

// read hands the client's lines to the peer, until the connection ends. Lines after Close are dropped.
func (c *conn) read() error {
	in := bufio.NewScanner(c.nc)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		if c.mayReceive() {
			c.peerMu.Lock()
			c.peer.Receive(in.Bytes())
			c.peerMu.Unlock()
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	return errors.New("the client has closed the connection")
}

// mayReceive waits while the node pauses, and reports whether the connection is still open.
func (c *conn) mayReceive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.paused && !c.closing {
		c.changed.Wait()
	}
	return !c.closing
}

// write sends the queued bytes, and ends the outgoing direction after them when the connection closes. The client then
// closes too, or the deadline of Close ends the connection.
func (c *conn) write() {
	for {
		part, closing := c.next()
		if len(part) == 0 && closing {
			break
		}
		if !closing {
			_ = c.nc.SetWriteDeadline(time.Now().Add(patience))
		}
		if _, err := c.nc.Write(part); err != nil {
			c.lost(err)
			c.nc.Close() // which ends read, too
			return
		}
		c.wrote()
	}
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	} else {
		c.nc.Close()
	}
}

// next waits for bytes to write.
func (c *conn) next() (part []byte, closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 && !c.closing {
		c.changed.Wait()
	}
	part, c.queue = c.queue, nil
	return part, c.closing
}

// wrote tells the peer that Write takes bytes again, if it did not take all before.
func (c *conn) wrote() {
	c.mu.Lock()
	full := c.full && !c.closing
	c.full = false
	c.mu.Unlock()
	if full {
		c.peerMu.Lock()
		defer c.peerMu.Unlock()
		if c.peer != nil {
			c.peer.Writable()
		}
	}
}

// lost ends a connection that has failed. The first cause counts.
func (c *conn) lost(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.closing, c.cause, c.queue = true, err, nil
		c.changed.Broadcast()
	}
}

// Write implements transport.Conn.
func (c *conn) Write(frames [][]byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return 0, net.ErrClosed
	}
	for _, f := range frames {
		part := f[:min(len(f), maxQueue-len(c.queue))]
		c.queue = append(c.queue, part...) // a copy: others share the frame
		n += len(part)
		if len(part) < len(f) {
			c.full = true
			break
		}
	}
	c.changed.Broadcast()
	return n, nil
}

// Close implements transport.Conn.
func (c *conn) Close(d protocol.Disconnect, frames [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	c.closing, c.cause = true, d
	c.queue = append(c.queue, bytes.Join(frames, nil)...)
	if d.Code == protocol.DisconnectConnectionClosed.Code {
		c.queue = nil
		c.nc.Close()
	} else {
		_ = c.nc.SetDeadline(time.Now().Add(patience))
	}
	c.changed.Broadcast()
}

// Pause implements transport.Conn.
func (c *conn) Pause(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = on
	c.changed.Broadcast()
}
