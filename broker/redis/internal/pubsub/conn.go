package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/resp"
	"github.com/gyrohq/gyro/quiet"
)

var errClosed = errors.New("closed")

// Conn keeps one connection alive until it is closed. Any goroutine may call the methods.
type Conn struct {
	cfg                         Config
	table                       *table
	heartbeat                   *heartbeat
	queue                       *queue
	stats                       counters
	failures, subscribeFailures atomic.Uint64

	ctx    context.Context
	cancel context.CancelCauseFunc
	wake   chan struct{} // ends a pause between two attempts to connect
	// connected: there was a connection. downSince: since when there is none. For run alone.
	connected bool
	downSince time.Time
	first     chan struct{} // closed after the first attempt to connect
	result    error         // of the first attempt

	mu      sync.Mutex
	started bool
	closed  bool
	running sync.WaitGroup
}

// Stats are the state of a Conn, and counters since New.
type Stats struct {
	Connected  bool   // and everything is subscribed
	Channels   int    // subscribed or about to be
	Waiting    int    // messages for the handler
	Reconnects uint64 // connections after the first
	Messages   uint64 // received, including Dropped, without canaries
	Dropped    uint64 // messages dropped because the handler was behind
	Failures
}

// Failures counts what went wrong.
type Failures struct {
	Connections uint64 // connections that broke, or could not be made
	Unsent      uint64 // canaries that could not be published
	Timeouts    uint64 // connections given up because no canary came back
	Subscribes  uint64 // calls of Subscribe that failed
}

// Add adds o.
func (f *Failures) Add(o Failures) {
	f.Connections += o.Connections
	f.Unsent += o.Unsent
	f.Timeouts += o.Timeouts
	f.Subscribes += o.Subscribes
}

// New returns a Conn that waits for Start.
func New(cfg Config) *Conn {
	cfg.complete()
	c := &Conn{cfg: cfg, first: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.table = newTable(cfg.Name, cfg.Sharded)
	c.heartbeat = newHeartbeat(&c.cfg)
	c.queue = newQueue(&c.cfg, c.ctx.Done(), c.handle, c.running.Go)
	return c
}

// Start returns the outcome of the first attempt, or the error of ctx. After a failure the Conn tries again until Close.
func (c *Conn) Start(ctx context.Context) error {
	if err := c.cfg.validate(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.started || c.closed {
		c.mu.Unlock()
		return fmt.Errorf("%s: started before, or closed", c.cfg.Name)
	}
	c.started = true
	c.running.Go(c.run)
	c.mu.Unlock()
	select {
	case <-c.first:
		return c.result
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close waits for all goroutines and callbacks, and discards messages that were not handed over.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel(errClosed)
	c.running.Wait()
	c.heartbeat.publisher.Wait()
}

// Subscribe waits until the server has confirmed, for Config.Timeout at most. Concurrent calls share commands. It fails
// at once while there is no connection (ErrDisconnected), and when the connection breaks; then none of the channels is
// subscribed, unless by a later call.
func (c *Conn) Subscribe(ctx context.Context, channels ...string) error {
	err := c.call(ctx, subscribe, channels)
	if err != nil {
		c.subscribeFailures.Add(1)
	}
	return err
}

// Unsubscribe returns at once without a connection. After an error, subscriptions may have ended or not.
func (c *Conn) Unsubscribe(ctx context.Context, channels ...string) error {
	return c.call(ctx, unsubscribe, channels)
}

func (c *Conn) call(ctx context.Context, k kind, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	call, err := c.table.submit(k, channels)
	if call == nil {
		return err
	}
	timer := time.NewTimer(c.cfg.Timeout)
	defer timer.Stop()
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return c.table.abandon(call, fmt.Errorf("%s: not confirmed: %w", c.cfg.Name, context.Cause(ctx)))
	case <-timer.C:
		return c.table.abandon(call, fmt.Errorf("%s: not confirmed within %s: %w", c.cfg.Name, c.cfg.Timeout, context.DeadlineExceeded))
	}
}

// Health returns how long the newest canary took to the handler, and why the connection is not proven to deliver now.
func (c *Conn) Health() (time.Duration, error) { return c.heartbeat.health() }

// Stats does not wait for the handler.
func (c *Conn) Stats() Stats {
	waiting, dropped := c.queue.counts()
	return Stats{
		Connected: c.heartbeat.isReady(), Channels: c.table.size(), Waiting: waiting,
		Reconnects: c.stats.reconnects.Load(), Messages: c.stats.messages.Load(), Dropped: dropped,
		Failures: Failures{
			Connections: c.failures.Load(), Unsent: c.heartbeat.failures.Load(),
			Timeouts: c.heartbeat.timeouts.Load(), Subscribes: c.subscribeFailures.Load(),
		},
	}
}

func (c *Conn) handle(m *message) {
	if m.note != nil {
		m.note()
		return
	}
	c.cfg.Message(m.channel, m.payload, m.memory)
}

// Wake shortens a pause, as the server seems to be reachable again.
func (c *Conn) Wake() { enginekit.Signal(c.wake) }

func (c *Conn) run() {
	backoff, attempts := enginekit.Backoff{Min: c.cfg.MinBackoff, Max: c.cfg.MaxBackoff}, 0
	c.downSince = time.Now()
	for {
		proven, err := c.attempt()
		closed := c.ctx.Err() != nil
		if closed {
			err = errClosed
		}
		c.heartbeat.connectFailed(err)
		c.table.connectFailed(err)
		c.attempted(err)
		if closed {
			return
		}
		c.failures.Add(1)
		if proven {
			attempts = 0
		}
		c.logLoss(err)
		pause := backoff.Pause(attempts)
		pause = pause/2 + time.Duration(c.cfg.Random()*float64(pause/2))
		attempts++
		select {
		case <-c.ctx.Done():
		case <-time.After(pause):
		case <-c.wake:
			// Many Conns are woken at a time, and must not connect at once.
			select {
			case <-c.ctx.Done():
			case <-time.After(time.Duration(c.cfg.Random() * float64(c.cfg.MaxBackoff/wakeSpread))):
			}
		}
	}
}

const wakeSpread = 10

// logLoss leaves to Start what happens before the first connection.
func (c *Conn) logLoss(reason error) {
	if !c.connected || !c.downSince.IsZero() {
		c.cfg.Logger.Debug("redis PUB/SUB cannot be connected", "part", c.cfg.Name, "reason", reason.Error())
		return
	}
	c.downSince = time.Now()
	c.cfg.Logger.Warn("redis PUB/SUB connection lost", "part", c.cfg.Name, "reason", reason.Error(), "channels", c.table.size())
}

func (c *Conn) attempted(err error) {
	select {
	case <-c.first:
	default:
		c.result = err
		close(c.first)
	}
}

// attempt returns when the connection has ended. proven: it was proven to deliver.
func (c *Conn) attempt() (proven bool, err error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.cfg.Timeout, fmt.Errorf("no connection within %s", c.cfg.Timeout))
	conn, err := c.cfg.Dial(ctx)
	cancel()
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	cn := c.newConnection(conn)
	c.heartbeat.open(cn)
	boot := c.table.open(cn, c.cfg.CanaryChannel)
	c.read(cn)
	var writer sync.WaitGroup
	writer.Go(cn.write)
	c.watch(cn, boot)
	if c.ctx.Err() == nil {
		cn.drain()
	}
	cn.conn.Close()
	c.queue.setReader(nil) // does not wait for a reader that is in the handler
	writer.Wait()
	select {
	case <-boot.done:
		c.connected = c.connected || boot.err == nil // everything was subscribed
	default:
	}
	return c.heartbeat.proof(), cn.err
}

func (c *Conn) read(cn *connection) {
	reader := new(readerID)
	c.queue.setReader(reader)
	c.running.Go(func() { cn.read(reader) })
}

func (c *Conn) newConnection(conn net.Conn) *connection {
	cn := &connection{
		conn: conn, table: c.table, heartbeat: c.heartbeat, queue: c.queue, stats: &c.stats,
		sharded: c.cfg.Sharded, timeout: c.cfg.Timeout, max: c.cfg.MaxMessage, canaries: c.cfg.CanaryChannel,
		wake: make(chan struct{}, 1), failed: make(chan struct{}), drained: make(chan struct{}, 1),
	}
	cn.lastReceived.Store(c.heartbeat.clock())
	cn.reader = resp.NewReader(source{cn}, resp.ChunkSize, cn.max)
	return cn
}

// watch gives up a connection before it publishes another canary, whichever timer comes first.
func (c *Conn) watch(cn *connection, boot *call) {
	// All connections of a process do this at the same moments, so that an idle process wakes up rarely.
	canary := time.NewTimer(quiet.UntilBeat(c.cfg.CanaryInterval))
	defer canary.Stop()
	period := c.cfg.period()
	check := time.NewTimer(quiet.UntilBeat(period))
	defer check.Stop()
	done := boot.done
	for {
		select {
		case <-cn.failed:
			return
		case <-c.ctx.Done():
			cn.fail(errClosed)
			return
		case <-done:
			done = nil
			if boot.err == nil {
				c.ready(cn)
			}
		case <-canary.C:
			canary.Reset(quiet.UntilBeat(c.cfg.CanaryInterval))
			if _, err := c.heartbeat.check(cn); err != nil {
				cn.fail(err)
				return
			}
			if done == nil {
				c.heartbeat.publishCanary(c.ctx, cn)
			}
		case <-check.C:
			check.Reset(quiet.UntilBeat(period))
			if reader := new(readerID); c.queue.relieve(reader, cn.saturated(period)) {
				c.running.Go(func() { cn.read(reader) })
			}
			idle, err := c.heartbeat.check(cn)
			if err != nil {
				cn.fail(err)
				return
			}
			if idle {
				c.table.requestPing(cn)
			}
		}
	}
}

// ready is called when everything is subscribed.
func (c *Conn) ready(cn *connection) {
	lost := c.connected
	c.connected = true
	if lost {
		c.stats.reconnects.Add(1)
		c.cfg.Logger.Info("redis PUB/SUB connection restored", "part", c.cfg.Name, "channels", c.table.size(),
			"failed_at", c.downSince, "after_ms", time.Since(c.downSince).Milliseconds())
	}
	c.downSince = time.Time{}
	c.heartbeat.subscribed(cn)
	c.queue.note(func() { c.cfg.Resubscribed(lost) })
	c.attempted(nil)
	c.heartbeat.publishCanary(c.ctx, cn)
}
