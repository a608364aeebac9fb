package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker"
)

// control receives control messages, which do not wait behind events.
type control struct {
	node   string // empty: no control messages
	handle func(data []byte)

	mu     sync.RWMutex // held while a message is handled
	closed bool

	noReceivers noReceiverCounts
}

const (
	// Bounds of the messages that wait for handle. The NATS client drops further ones.
	controlMessages = 16 << 10
	controlBytes    = 16 << 20
)

// RunControl implements broker.Controller. It connects like Connect. node becomes a part of a subject: it must not
// contain spaces, dots or wildcards.
func (b *Broker) RunControl(node string, handle func(data []byte)) error {
	if !validNode(node) {
		return fmt.Errorf("nats: node %.100q cannot be a part of a subject", node)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.control.node != "" || b.running {
		return errors.New("nats: RunControl comes once, and before Run")
	}
	b.control.node, b.control.handle = node, handle
	var err error
	if conn := b.conn.Load(); conn != nil {
		err = b.serve(conn, b.dialer.number.Load()) // Connect did not subscribe to control messages
	} else {
		err = b.start(context.Background())
	}
	if err != nil {
		b.control.node = ""
	}
	return err
}

func validNode(node string) bool {
	return len(node) <= maxPrefix && validSubject(node) && !strings.ContainsAny(node, ".*>")
}

func (c *control) subscribe(conn *natsio.Conn, n *names) error {
	if c.node == "" {
		return nil
	}
	for _, subject := range []string{n.control, n.node + c.node} {
		sub, err := conn.Subscribe(subject, c.receive)
		if err == nil {
			err = sub.SetPendingLimits(controlMessages, controlBytes)
		}
		if err != nil {
			return fmt.Errorf("nats: subscribing to %s: %w", subject, err)
		}
	}
	return c.noReceivers.subscribe(conn, n)
}

func (c *control) receive(m *natsio.Msg) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed {
		c.handle(m.Data)
	}
}

// close waits for calls of handle; no further ones follow.
func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// PublishControl implements broker.Controller. It returns when the server has processed the message. A server from 2.12
// on tells whether its NATS cluster has a subscription for a node.
func (b *Broker) PublishControl(ctx context.Context, node string, data []byte) error {
	subject := b.names.control
	if node != "" {
		if !validNode(node) {
			return fmt.Errorf("nats: node %.100q cannot be a part of a subject", node)
		}
		subject = b.names.node + node
	}
	number, err := b.ready(ctx)
	if err != nil {
		return err
	}
	conn, since, before := b.conn.Load(), b.flusher.begin(), b.control.noReceivers.of(subject)
	m := &natsio.Msg{Subject: subject, Data: data}
	if node != "" {
		m.Reply = b.control.noReceivers.reply
	}
	if err := published(conn, len(data), conn.PublishMsg(m)); err != nil {
		return err
	}
	if err := b.flush(ctx, number); err != nil {
		return err
	}
	if err := b.flusher.denies(toPublish, subject, since); err != nil {
		return err
	}
	if b.control.noReceivers.of(subject) != before {
		return fmt.Errorf("nats: %w %s", broker.ErrNoReceiver, node)
	}
	return nil
}

// noReceiverCounts counts how often the server said that a subject had no subscription. It says so before it answers the
// ping behind the message, and the NATS client puts both away in this order.
type noReceiverCounts struct {
	reply string // set before messages are published; empty: the server is not asked
	said  chan *natsio.Msg

	mu       sync.Mutex
	subjects map[string]uint64
}

// maxNoReceiverCounts bounds messages that are not counted yet, and counted subjects.
const maxNoReceiverCounts = 4096

func (n *noReceiverCounts) subscribe(conn *natsio.Conn, names *names) error {
	n.reply, n.said, n.subjects = names.canary+natsio.NewInbox()[len(natsio.InboxPrefix):], make(chan *natsio.Msg, maxNoReceiverCounts), make(map[string]uint64)
	if _, err := conn.ChanSubscribe(n.reply, n.said); err != nil {
		return fmt.Errorf("nats: subscribing to %s: %w", n.reply, err)
	}
	return nil
}

func (n *noReceiverCounts) of(subject string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		select {
		case m := <-n.said:
			if len(n.subjects) >= maxNoReceiverCounts {
				clear(n.subjects)
			}
			n.subjects[m.Header.Get("Nats-Subject")]++
		default:
			return n.subjects[subject]
		}
	}
}
