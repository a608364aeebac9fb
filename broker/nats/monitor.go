package nats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/internal/random"
	"github.com/gyrohq/gyro/quiet"
)

// monitor sends a canary every second, which must come back on the way of events. When canaries stay away it cuts the
// connection, and the NATS client makes another one; when the client gives up, monitor connects anew. Then it restores
// the subscriptions, and reports a loss.
type monitor struct {
	b       *Broker
	subject string
	period  time.Duration
	probes  *routeProbes

	kick chan struct{}
	stop chan struct{}
	wg   sync.WaitGroup

	sub    *natsio.Subscription
	sent   atomic.Uint64 // canaries, the last of them at sentAt
	sentAt atomic.Int64
	seen   atomic.Uint64 // the last canary that came back
	delay  atomic.Int64  // how long it took

	logged atomic.Int64 // when a frequent event was logged last

	mu sync.Mutex
	// overflows are the subscriptions whose messages found no room in the receiver. The NATS client reports only the
	// first message that it dropped.
	overflows map[*natsio.Subscription]dropped
}

// dropped are the NATS client's counts of a subscription.
type dropped struct {
	messages  int
	delivered int64
}

// missing is how many canaries in a row must stay away.
const missing = 3

var processStart = time.Now()

func newMonitor(b *Broker) *monitor {
	subject := b.names.canary + strconv.FormatUint(random.Uint64(), 36)
	return &monitor{
		b: b, subject: subject, period: time.Second, probes: newRouteProbes(b, subject+"-way"),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), overflows: make(map[*natsio.Subscription]dropped),
	}
}

func (m *monitor) start() { m.wg.Go(m.run) }
func (m *monitor) close() { close(m.stop) }

// wake makes the monitor look at the connection.
func (m *monitor) wake() { enginekit.Signal(m.kick) }

func (m *monitor) run() {
	timer := time.NewTimer(quiet.UntilBeat(m.period))
	defer timer.Stop()
	m.discover()
	for {
		select {
		case <-m.kick:
			m.mend()
			m.discover()
		case <-timer.C:
			timer.Reset(quiet.UntilBeat(m.period))
			m.mend()
			m.tick()
		case <-m.stop:
			return
		}
	}
}

func (m *monitor) subscribe(conn *natsio.Conn) error {
	if err := m.probes.subscribe(conn); err != nil || m.sub.IsValid() {
		return err
	}
	var err error
	if m.sub, err = conn.ChanSubscribe(m.subject, m.b.receiver.messages); err != nil {
		return fmt.Errorf("subscribing to %s: %w", m.subject, err)
	}
	return nil
}

// send: a canary that fails does not come back.
func (m *monitor) send(conn *natsio.Conn) {
	m.sentAt.Store(int64(time.Since(processStart)))
	n := m.sent.Add(1)
	_ = conn.Publish(m.subject, binary.BigEndian.AppendUint64(nil, n))
}

func (m *monitor) isCanary(msg *natsio.Msg) bool { return msg.Sub.Subject == m.subject }

// canaryArrived is called for one canary at a time.
func (m *monitor) canaryArrived(msg *natsio.Msg) {
	n := canaryNumber(msg)
	if n == m.sent.Load() {
		m.delay.Store(int64(time.Since(processStart)) - m.sentAt.Load())
	}
	m.seen.Store(n)
}

// canaryNumber is 0 for messages from elsewhere.
func canaryNumber(msg *natsio.Msg) uint64 {
	if len(msg.Data) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(msg.Data)
}

// tick sends the next canary, or cuts the connection if the last ones did not come back.
func (m *monitor) tick() {
	if m.b.dialer.flowing.Load() == 0 {
		return
	}
	if m.sent.Load() >= m.seen.Load()+missing {
		m.b.dialer.cut(fmt.Errorf("no canary has come back for %v", missing*m.period))
		return
	}
	conn := m.b.conn.Load()
	m.send(conn)
	m.recount()
	m.probes.update(conn)
}

// discover watches servers that have just become known. With the next canary it may be too late: the server of this node
// stops announcing a server when the route to it has broken.
func (m *monitor) discover() {
	if m.b.dialer.flowing.Load() != 0 {
		m.probes.update(m.b.conn.Load())
	}
}

// late returns why events are not delivered although there is a connection, or nil.
func (m *monitor) late() error {
	sent := m.sent.Load()
	if sent >= m.seen.Load()+missing {
		return fmt.Errorf("nats: no canary has come back for %v", missing*m.period)
	}
	for _, w := range m.b.receiver.workers {
		if sent > w.seen.Load()+missing {
			return errors.New("nats: the node does not take events")
		}
	}
	return m.probes.err()
}

func (m *monitor) mend() {
	b := m.b
	for attempt := 0; b.dialer.flowing.Load() == 0 && !b.closed.Load(); attempt++ {
		conn := b.conn.Load()
		switch {
		case conn.IsReconnecting():
			return // ReconnectedCB wakes the monitor
		case conn.IsClosed():
			if err := m.restart(); err != nil {
				b.dialer.failed(err)
				if !enginekit.Sleep(b.lifetime, enginekit.ConnectPause(attempt)) {
					return
				}
				continue
			}
		}
		if err := b.restore(b.dialer.number.Load()); err != nil {
			b.dialer.failed(err)
			return // the next tick tries again
		}
		m.seen.Store(m.sent.Load() - 1) // earlier canaries were lost with the old connection
		b.log.Info("connected again", "engine", b.part)
		b.handler.HandleLoss(func(string) bool { return true })
	}
}

func (m *monitor) restart() error {
	b := m.b
	conn, _, err := b.connect()
	if err != nil {
		return err
	}
	if err := b.control.subscribe(conn, b.names); err != nil {
		conn.Close()
		return err
	}
	b.conn.Store(conn)
	return nil
}

// overflowed is called when the NATS client drops a message of a subscription for the first
// time, or for the first time since it delivered one.
func (m *monitor) overflowed(sub *natsio.Subscription) {
	ch, ok := m.b.names.channel(sub)
	if !ok {
		m.b.log.Warn("messages were dropped", "engine", m.b.part, "subject", sub.Subject)
		return
	}
	m.mu.Lock()
	m.overflows[sub] = count(sub)
	m.mu.Unlock()
	m.b.receiver.lost(ch)
}

func count(sub *natsio.Subscription) dropped {
	// Both return -1 and an error for a subscription that has ended.
	messages, _ := sub.Dropped()
	delivered, _ := sub.Delivered()
	return dropped{messages, delivered}
}

// recount finds further drops of the overflows. It forgets those that got a message since: the NATS client will report
// their next drop.
func (m *monitor) recount() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for sub, before := range m.overflows {
		now := count(sub)
		ch, ok := m.b.names.channel(sub)
		switch {
		case !ok || now.messages < 0:
			delete(m.overflows, sub)
		case now.messages > before.messages:
			m.overflows[sub] = now
			m.b.receiver.lost(ch)
		case now.delivered > before.delivered:
			delete(m.overflows, sub)
		}
	}
}

// mayLog is true at most once a second.
func (m *monitor) mayLog() bool {
	now, last := int64(time.Since(processStart)), m.logged.Load()
	return (last == 0 || now-last >= int64(time.Second)) && m.logged.CompareAndSwap(last, now)
}
