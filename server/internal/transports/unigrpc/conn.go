package unigrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// stashSize is how many bytes, or one message, Write takes while the stream is busy. More would weaken the bound of the
// core's queue.
const stashSize = 32 << 10

// conn implements transport.Conn over a stream, whose goroutine writes. Another one lives until the connect request has
// come.
type conn struct {
	stream  grpc.ServerStream
	cancel  context.CancelFunc // ends a write that waits for the client
	arrived func()             // is called when the connect request has come, or does not come any more
	timeout time.Duration      // of the writing of out
	timer   *time.Timer        // of timeout; nil before the first write
	wake    chan struct{}      // has an element if the goroutine that writes has something to do

	peerMu sync.Mutex
	peer   transport.Peer // nil before accepting and after Closed

	mu      sync.Mutex
	out     []byte // whole messages, each with its length
	begun   bool   // something was written
	deaf    bool   // the client does not read
	starved bool   // Write took less than all bytes
	ending  bool
	cause   error // for Peer.Closed
}

func (c *conn) serve(ctx context.Context, a transport.Acceptor, info transport.Info) (err error) {
	defer func() {
		if c.contain(recover()) {
			err = status.Error(codes.Internal, protocol.DisconnectServerError.Reason)
		}
		c.tell()
	}()
	c.peerMu.Lock()
	func() {
		defer c.peerMu.Unlock() // also if the acceptor panics
		c.peer, err = a.Accept(context.WithoutCancel(ctx), c, info)
	}()
	if err != nil {
		d := protocol.DisconnectServerError
		errors.As(err, &d)
		c.Close(d, nil)
	} else {
		go c.receive()
	}
	c.run(ctx)
	return nil
}

// contain ends the connection after a panic, and reports whether there was one, now or before.
func (c *conn) contain(reason any) bool {
	if reason != nil {
		c.fail(&transport.Panic{Reason: reason, Stack: debug.Stack()})
		c.cancel()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, panicked := errors.AsType[*transport.Panic](c.cause)
	return panicked
}

func (c *conn) receive() {
	defer func() { c.contain(recover()) }()
	var m message
	err := c.stream.RecvMsg(&m)
	c.arrived()
	if err != nil {
		c.Close(protocol.DisconnectBadRequest, nil) // if the client has not gone
		return
	}
	m.data = published(m.data)
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer != nil {
		c.peer.Receive(m.data)
	}
}

// published keeps the fields of the published schema, because the others have a meaning on other transports. It returns
// malformed data as it is.
func published(data []byte) []byte {
	var r protocol.ConnectRequest
	if r.UnmarshalProto(data) != nil {
		return data
	}
	out := protocol.ConnectRequest{Token: r.Token, Data: r.Data, Subs: r.Subs, Name: r.Name, Version: r.Version, Headers: r.Headers}
	for ch, sub := range r.Subs {
		if sub == nil {
			continue
		}
		r.Subs[ch] = &protocol.SubscribeRequest{Recover: sub.Recover, Epoch: sub.Epoch, Offset: sub.Offset}
	}
	return out.AppendProto(nil)
}

func (c *conn) run(ctx context.Context) {
	for {
		batch, drained, ended := c.next()
		switch {
		case len(batch) > 0:
			if err := c.send(batch); err != nil {
				c.fail(fmt.Errorf("transport: %w: %w", protocol.DisconnectWriteError, err))
				return
			}
		case ended:
			return
		case drained:
			c.writable()
		default:
			select {
			case <-c.wake:
			case <-ctx.Done():
				c.fail(fmt.Errorf("transport: connection lost: %w", ctx.Err()))
				return
			}
		}
	}
}

func (c *conn) writable() {
	c.peerMu.Lock()
	defer c.peerMu.Unlock() // also if the peer panics
	c.peer.Writable()       // it is set, since it has written
}

// next: drained tells that the peer waits for an empty queue, ended that the connection has ended.
func (c *conn) next() (batch []byte, drained, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch, c.out = c.out, nil
	if len(batch) > 0 || c.ending {
		return batch, false, c.ending
	}
	drained, c.starved = c.starved, false
	return nil, drained, false
}

// send writes messages. gRPC keeps them until the client has room for them.
func (c *conn) send(batch []byte) error {
	if c.timer == nil {
		c.timer = time.AfterFunc(c.timeout, c.expire)
	} else {
		c.timer.Reset(c.timeout)
	}
	defer c.timer.Stop()
	for m := new(message); len(batch) > 0; {
		size, n := binary.Uvarint(batch)
		end := n + int(size)
		m.data, batch = batch[n:end:end], batch[end:]
		if err := c.stream.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) expire() {
	c.mu.Lock()
	c.deaf = true
	c.mu.Unlock()
	c.fail(fmt.Errorf("transport: %w: %w", protocol.DisconnectWriteError, os.ErrDeadlineExceeded))
	c.cancel()
}

func (c *conn) isDeaf() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deaf
}

func (c *conn) fail(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = nil
	if !c.ending {
		c.ending, c.cause = true, cause
	}
}

func (c *conn) tell() {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer != nil {
		c.peer.Closed(cause)
		c.peer = nil
	}
}

func (c *conn) Write(frames [][]byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return 0, net.ErrClosed
	}
	for _, run := range frames {
		fits := whole(run, len(c.out))
		c.out = append(slices.Grow(c.out, fits), run[:fits]...)
		if n += fits; fits < len(run) {
			c.starved = true
			break
		}
	}
	if n > 0 {
		c.begun = true
		c.signal()
	}
	return n, nil
}

// whole is sockjs.whole for messages of Protobuf.
func whole(run []byte, held int) (size int) {
	for size < len(run) {
		length, n := binary.Uvarint(run[size:])
		next := size + n + int(length)
		if held+next > stashSize && held+size > 0 {
			break
		}
		size = next
	}
	return size
}

// Close ends the connection. frames end with the disconnect push, unless the client sent no connect request or the node
// shuts down.
func (c *conn) Close(d protocol.Disconnect, frames [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	c.ending, c.cause = true, d
	switch {
	case d.Code == protocol.DisconnectConnectionClosed.Code, d.Code == protocol.DisconnectSlow.Code:
		c.out, c.deaf = nil, d.Code == protocol.DisconnectSlow.Code
		c.cancel()
	case len(frames) == 0 && !c.begun:
		c.out = (&protocol.Push{Disconnect: &d}).AppendDelimited(nil)
	default:
		c.out = slices.Concat(append([][]byte{c.out}, frames...)...)
	}
	c.signal()
}

// Pause does nothing: one-way clients send one message.
func (c *conn) Pause(bool) {}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
