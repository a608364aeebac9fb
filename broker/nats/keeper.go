package nats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsio "github.com/nats-io/nats.go"
)

// keeper watches the connection: every second it sends a canary, which has to come back the
// way that events come. When canaries stay away it cuts the connection, and the NATS client
// makes another one; when the client gives up, keeper connects anew. Then it restores the
// subscriptions, and tells the node that events may have been lost.
type keeper struct {
	b       *Broker
	subject string
	period  time.Duration
	ways    *ways

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
	// overflows are the subscriptions whose messages found no room in the intake. The NATS
	// client reports the first message that it dropped, but not those that follow.
	overflows map[*natsio.Subscription]dropped
}

// dropped is what the NATS client counts of a subscription.
type dropped struct {
	messages  int
	delivered int64
}

// missing is how many canaries in a row have to stay away.
const missing = 3

var epoch = time.Now()

func newKeeper(b *Broker) *keeper {
	subject := b.names.canary + strconv.FormatUint(rand.Uint64(), 36)
	return &keeper{
		b: b, subject: subject, period: time.Second, ways: newWays(b, subject+"-way"),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), overflows: make(map[*natsio.Subscription]dropped),
	}
}

func (k *keeper) start() { k.wg.Go(k.run) }
func (k *keeper) close() { close(k.stop) }

// wake makes the keeper look at the connection.
func (k *keeper) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

func (k *keeper) run() {
	ticker := time.NewTicker(k.period)
	defer ticker.Stop()
	k.discover()
	for {
		select {
		case <-k.kick:
			k.mend()
			k.discover()
		case <-ticker.C:
			k.mend()
			k.beat()
		case <-k.stop:
			return
		}
	}
}

// subscribe makes sure that canaries come back.
func (k *keeper) subscribe(conn *natsio.Conn) error {
	if err := k.ways.subscribe(conn); err != nil || k.sub.IsValid() {
		return err
	}
	var err error
	if k.sub, err = conn.ChanSubscribe(k.subject, k.b.intake.messages); err != nil {
		return fmt.Errorf("subscribing to %s: %w", k.subject, err)
	}
	return nil
}

// send sends a canary. If that fails, the canary does not come back.
func (k *keeper) send(conn *natsio.Conn) {
	k.sentAt.Store(int64(time.Since(epoch)))
	n := k.sent.Add(1)
	_ = conn.Publish(k.subject, binary.BigEndian.AppendUint64(nil, n))
}

func (k *keeper) isCanary(m *natsio.Msg) bool { return m.Sub.Subject == k.subject }

// sight is called for each canary that comes in, one at a time.
func (k *keeper) sight(m *natsio.Msg) {
	n := canaryNumber(m)
	if n == k.sent.Load() {
		k.delay.Store(int64(time.Since(epoch)) - k.sentAt.Load())
	}
	k.seen.Store(n)
}

// canaryNumber is 0 for messages of somebody else.
func canaryNumber(m *natsio.Msg) uint64 {
	if len(m.Data) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(m.Data)
}

// beat sends the next canary, or cuts the connection if the last ones did not come back.
func (k *keeper) beat() {
	if k.b.dialer.flowing.Load() == 0 {
		return
	}
	if k.sent.Load() >= k.seen.Load()+missing {
		k.b.dialer.cut(fmt.Errorf("no canary has come back for %v", missing*k.period))
		return
	}
	conn := k.b.conn.Load()
	k.send(conn)
	k.recount()
	k.ways.update(conn)
}

// discover watches the servers that have just become known. With the next canary it may be too late: the server of this
// node does not tell any more of one to which its route has broken.
func (k *keeper) discover() {
	if k.b.dialer.flowing.Load() != 0 {
		k.ways.update(k.b.conn.Load())
	}
}

// late returns why events are not delivered although there is a connection, or nil.
func (k *keeper) late() error {
	sent := k.sent.Load()
	if sent >= k.seen.Load()+missing {
		return fmt.Errorf("nats: no canary has come back for %v", missing*k.period)
	}
	for _, w := range k.b.intake.workers {
		if sent > w.seen.Load()+missing {
			return errors.New("nats: the node does not take events")
		}
	}
	return k.ways.err()
}

// mend makes events flow if they do not.
func (k *keeper) mend() {
	b := k.b
	for attempt := 0; b.dialer.flowing.Load() == 0 && !b.closed.Load(); attempt++ {
		conn := b.conn.Load()
		switch {
		case conn.IsReconnecting():
			return // ReconnectedCB wakes the keeper
		case conn.IsClosed():
			if err := k.restart(); err != nil {
				b.dialer.failed(err)
				if !k.sleep(pause(attempt)) {
					return
				}
				continue
			}
		}
		if err := b.restore(b.dialer.number.Load()); err != nil {
			b.dialer.failed(err)
			return // the next tick tries again
		}
		k.seen.Store(k.sent.Load() - 1) // earlier canaries were lost with the old connection
		b.log.Info("connected again", "engine", b.part)
		b.handler.HandleLoss(func(string) bool { return true })
	}
}

// restart makes a connection in place of the one that the NATS client gave up.
func (k *keeper) restart() error {
	b := k.b
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

// sleep returns false if the keeper is closed meanwhile.
func (k *keeper) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-k.stop:
		return false
	}
}

// overflowed is called when the NATS client drops a message of a subscription for the first
// time, or for the first time since it delivered one.
func (k *keeper) overflowed(sub *natsio.Subscription) {
	ch, ok := k.b.names.channel(sub)
	if !ok {
		k.b.log.Warn("messages were dropped", "engine", k.b.part, "subject", sub.Subject)
		return
	}
	k.mu.Lock()
	k.overflows[sub] = count(sub)
	k.mu.Unlock()
	k.b.intake.lost(ch)
}

func count(sub *natsio.Subscription) dropped {
	// Both return -1 and an error for a subscription that has ended.
	messages, _ := sub.Dropped()
	delivered, _ := sub.Delivered()
	return dropped{messages, delivered}
}

// recount finds further drops of the subscriptions in overflows. It forgets those that got a
// message since, because the NATS client will report their next drop.
func (k *keeper) recount() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for sub, before := range k.overflows {
		now := count(sub)
		ch, ok := k.b.names.channel(sub)
		switch {
		case !ok || now.messages < 0:
			delete(k.overflows, sub)
		case now.messages > before.messages:
			k.overflows[sub] = now
			k.b.intake.lost(ch)
		case now.delivered > before.delivered:
			delete(k.overflows, sub)
		}
	}
}

// mayLog is true at most once a second.
func (k *keeper) mayLog() bool {
	now, last := int64(time.Since(epoch)), k.logged.Load()
	return (last == 0 || now-last >= int64(time.Second)) && k.logged.CompareAndSwap(last, now)
}
