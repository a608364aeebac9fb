// Package nats is the engine on NATS (docs/engines.md): publications, joins, leaves and control messages travel over
// core NATS to all nodes, at most once; events of one publisher keep their order. NATS stores nothing: there is no
// history, no recovery and no position, and idempotency keys and versions are ignored. Presence needs another engine.
package nats

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/protocol"
)

// Broker is the engine. Its methods may be called from any goroutine. Those that talk to the
// server end with their context, and after Config.RequestTimeout at the latest.
//
// The broker sends a canary each second. When the connection breaks, or canaries do not come
// back, it connects again, with pauses of up to 2 s, restores all subscriptions, and calls
// EventHandler.HandleLoss for all channels.
//
// In a NATS cluster the broker has one more connection to each of the other servers, up to
// 64, and sends canaries there, too: Health tells if the route from one of them is broken.
type Broker struct {
	cfg      Config
	log      *slog.Logger
	part     string
	names    *names
	dialer   *dialer
	flusher  *flusher
	receiver *receiver
	covers   func(pattern, ch string) bool
	monitor  *monitor
	control  control
	handler  broker.EventHandler

	conn atomic.Pointer[natsio.Conn]

	mu       sync.Mutex // serialises Run, RunControl and end
	running  bool
	lifetime context.Context // ends with the first Close
	close    context.CancelFunc
	closed   atomic.Bool
	ended    chan struct{} // closed when nothing is delivered any more

	seed    maphash.Seed
	stripes [64]stripe
}

// stripe: mu is held during calls of the NATS client, so that a channel has one subscription.
type stripe struct {
	mu   sync.Mutex
	subs map[string]*natsio.Subscription
}

var (
	errClosed       = errors.New("nats: broker is closed")
	errDisconnected = errors.New("nats: no connection")
)

// New returns a broker that Run connects. An error names the field that is wrong.
func New(cfg Config) (*Broker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	hosts, _ := cfg.hosts() // was checked
	b := &Broker{
		cfg: cfg, log: cfg.Logger, part: "nats (" + strings.Join(hosts, ", ") + ")",
		names: newNames(&cfg), dialer: newDialer(cfg.DialTimeout), receiver: newReceiver(cfg.PendingBytes),
		ended: make(chan struct{}), seed: maphash.MakeSeed(),
	}
	b.lifetime, b.close = context.WithCancel(context.Background())
	b.covers = cfg.Covers
	if b.covers == nil {
		b.covers = func(string, string) bool { return true }
	}
	for i := range b.stripes {
		b.stripes[i].subs = make(map[string]*natsio.Subscription)
	}
	b.flusher = newFlusher(cfg.RequestTimeout, b.conn.Load)
	b.monitor = newMonitor(b)
	b.receiver.channel = b.names.channel
	b.receiver.deliver = b.deliver
	b.receiver.lose = b.lose
	b.receiver.isCanary = b.monitor.isCanary
	b.receiver.canaryArrived = b.monitor.canaryArrived
	return b, nil
}

// Describe implements broker.Engine.
func (b *Broker) Describe() broker.Traits {
	return broker.Traits{Name: "nats", Health: b.Health, Metrics: b.metrics, Batch: b.PublishBatch, Control: b}
}

// Broker returns b, so that a program can set gyro.Config.Engine to it.
func (b *Broker) Broker() broker.Broker { return b }

// Connect connects to the server. It tries for Config.StartTimeout. If the broker is connected, it does nothing.
func (b *Broker) Connect(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.start(ctx)
}

// Run implements broker.Broker. It connects like Connect, if that was not called.
func (b *Broker) Run(h broker.EventHandler) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return errors.New("nats: broker was run already")
	}
	if err := b.start(context.Background()); err != nil {
		return err
	}
	b.handler = h
	b.running = true
	b.receiver.start()
	b.monitor.start()
	return nil
}

// start connects, unless that was done. mu is held.
func (b *Broker) start(ctx context.Context) error {
	if b.closed.Load() {
		return errClosed
	}
	if b.conn.Load() != nil {
		return nil
	}
	conn, number, err := b.connectAtStart(ctx)
	if err != nil {
		return fmt.Errorf("nats: cannot connect to %s: %w", strings.TrimPrefix(b.part, "nats "), err)
	}
	b.conn.Store(conn)
	return b.serve(conn, number)
}

// serve subscribes on a connection, or closes it. mu is held.
func (b *Broker) serve(conn *natsio.Conn, number uint64) error {
	err := b.control.subscribe(conn, b.names)
	if err == nil {
		err = b.restore(number)
	}
	if err != nil {
		b.conn.Store(nil)
		conn.Close()
		return fmt.Errorf("nats: %s does not serve: %w", strings.TrimPrefix(b.part, "nats "), err)
	}
	return nil
}

// Close implements broker.Broker.
func (b *Broker) Close(ctx context.Context) error {
	if !b.closed.Swap(true) {
		b.close()
		go b.end()
	}
	select {
	case <-b.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Broker) end() {
	defer close(b.ended)
	b.mu.Lock()
	defer b.mu.Unlock()
	disconnect := func() {
		if conn := b.conn.Load(); conn != nil {
			conn.Close()
		}
	}
	disconnect() // so that no call waits for the server
	if b.running {
		b.monitor.close()
		b.receiver.close()
		b.monitor.wg.Wait()
		disconnect() // the monitor may have connected meanwhile
	}
	b.control.close()
	b.receiver.wg.Wait()
}

// ready returns the number of the connection over which events flow.
func (b *Broker) ready(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if b.closed.Load() {
		return 0, errClosed
	}
	if number := b.dialer.flowing.Load(); number != 0 {
		return number, nil
	}
	if _, _, err := b.dialer.state(); err != nil {
		return 0, fmt.Errorf("%w: %w", errDisconnected, err)
	}
	return 0, errDisconnected
}

// flush waits until the server has processed what was sent over a connection.
func (b *Broker) flush(ctx context.Context, number uint64) error {
	if err := b.flusher.flush(ctx); err != nil {
		if b.closed.Load() {
			return errClosed
		}
		return err
	}
	if b.dialer.number.Load() != number {
		return fmt.Errorf("%w: it broke before the server confirmed", errDisconnected)
	}
	return nil
}

// subscribeAtOnce is how many channels one confirmation is for.
const subscribeAtOnce = 8192

// Subscribe implements broker.Broker. While there is no connection it waits for one. It returns when the server has
// confirmed, which takes Config.RequestTimeout at most for each 8,192 channels; concurrent calls share that round trip.
// It fails with protocol.ErrorBadRequest for a channel with a wildcard, unless Config.AllowWildcards is set, for one
// that does not make a NATS subject (with spaces, or with an empty part between dots), and for one whose subject belongs
// to NATS or to Gyro; with protocol.ErrorPermissionDenied for a wildcard at the beginning, and for a subject that the
// server does not permit.
func (b *Broker) Subscribe(ctx context.Context, channels ...string) error {
	subjects := make([]string, len(channels))
	for i, ch := range channels {
		var err error
		if subjects[i], err = b.names.toSubscribe(ch); err != nil {
			return b.refused(err)
		}
	}
	for {
		n := min(len(channels), subscribeAtOnce)
		if err := b.subscribe(ctx, channels[:n], subjects[:n]); err != nil {
			return err
		}
		channels, subjects = channels[n:], subjects[n:]
		if len(channels) == 0 {
			return nil
		}
	}
}

func (b *Broker) subscribe(ctx context.Context, channels, subjects []string) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.RequestTimeout)
	defer cancel()
	for {
		if err := b.awaitConnection(ctx); err != nil {
			return err
		}
		number, since := b.dialer.number.Load(), b.flusher.begin()
		err := b.addSubscriptions(channels, subjects)
		if err == nil {
			err = b.flusher.flush(ctx)
		}
		if err == nil && b.dialer.number.Load() != number {
			continue // a new connection confirmed, perhaps before all is restored there
		}
		if err == nil {
			for _, s := range subjects {
				err = errors.Join(err, b.flusher.denies(toSubscribe, s, since))
			}
			return err
		}
		if up, _, _ := b.dialer.state(); up || ctx.Err() != nil || b.closed.Load() {
			return err
		}
		// The connection broke. The next one will have the subscriptions that were added.
	}
}

func (b *Broker) awaitConnection(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.closed.Load() {
			return errClosed
		}
		up, changed, err := b.dialer.state()
		if up {
			return nil
		}
		select {
		case <-changed:
		case <-b.ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errDisconnected, errors.Join(err, ctx.Err()))
		}
	}
}

func (b *Broker) stripe(ch string) *stripe {
	return &b.stripes[maphash.String(b.seed, ch)%uint64(len(b.stripes))]
}

func (b *Broker) addSubscriptions(channels, subjects []string) error {
	for i, ch := range channels {
		if err := b.subscribeOne(b.stripe(ch), ch, subjects[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) subscribeOne(s *stripe, ch, subject string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs[ch] != nil {
		return nil
	}
	sub, err := b.conn.Load().ChanSubscribe(subject, b.receiver.messages)
	if err != nil {
		return fmt.Errorf("nats: subscribing to channel %.100q: %w", ch, err)
	}
	b.names.add(sub, ch)
	s.subs[strings.Clone(ch)] = sub
	return nil
}

// Unsubscribe implements broker.Broker. It does not wait for the server.
func (b *Broker) Unsubscribe(ctx context.Context, channels ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.closed.Load() {
		return errClosed
	}
	var errs []error
	for _, ch := range channels {
		if err := b.unsubscribeOne(b.stripe(ch), ch); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (b *Broker) unsubscribeOne(s *stripe, ch string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs[ch]
	if sub == nil {
		return nil
	}
	delete(s.subs, ch)
	b.names.remove(sub)
	// A connection that the client gave up has no subscriptions.
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, natsio.ErrConnectionClosed) {
		return fmt.Errorf("nats: unsubscribing from channel %.100q: %w", ch, err)
	}
	return nil
}

// History implements broker.Broker. It fails with protocol.ErrorNotAvailable.
func (b *Broker) History(ctx context.Context, _ string, _ broker.HistoryFilter) (broker.History, error) {
	if err := ctx.Err(); err != nil {
		return broker.History{}, err
	}
	return broker.History{}, protocol.ErrorNotAvailable
}

// RemoveHistory implements broker.Broker. It fails with protocol.ErrorNotAvailable.
func (b *Broker) RemoveHistory(ctx context.Context, _ string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return protocol.ErrorNotAvailable
}

// Health is Traits.Health: one element.
func (b *Broker) Health() []broker.Health {
	h := broker.Health{
		Part: b.part, Delay: time.Duration(b.monitor.delay.Load()), Reconnects: max(b.dialer.flows.Load(), 1) - 1,
	}
	up, _, err := b.dialer.state()
	switch {
	case b.closed.Load():
		h.Err = errClosed
	case !up && err != nil:
		h.Err = fmt.Errorf("%w: %w", errDisconnected, err)
	case !up:
		h.Err = errDisconnected
	default:
		h.Err = b.monitor.late()
	}
	return []broker.Health{h}
}

// counts returns how many events wait for the node, and how many were dropped because it was behind. dropped counts only
// a part of the events that the NATS client drops, one step earlier.
func (b *Broker) counts() (waiting int, dropped uint64) {
	waiting = len(b.receiver.messages)
	for _, w := range b.receiver.workers {
		n, drops := w.counts()
		waiting += n
		dropped += drops
	}
	return waiting, dropped
}

func (b *Broker) metrics() []broker.Metric {
	waiting, dropped := b.counts()
	return []broker.Metric{
		{Name: "dropped_messages_total", Help: "Messages dropped because the node was behind.", Counter: true, Value: float64(dropped)},
		{Name: "buffered_messages", Help: "Messages that wait for the node.", Value: float64(waiting)},
		{
			Name: "unreachable_servers", Value: float64(b.monitor.probes.unreachableCount()),
			Help: "Other servers of the NATS cluster that are configured, or were announced within ten minutes, and cannot be reached.",
		},
	}
}

func (b *Broker) lose(match func(ch string) bool) {
	if b.monitor.mayLog() {
		b.log.Warn("events were dropped, the node is behind", "engine", b.part)
	}
	b.handler.HandleLoss(match)
}
