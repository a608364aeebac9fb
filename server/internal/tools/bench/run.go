// Package bench puts load on a server of the client protocol, and reports deliveries and their cost: "gyro bench"
// (docs/performance.md).
package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/account"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/proc"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// ErrFailed is the error of a run that came to its end, but lost, duplicated, refused or disconnected something. The
// error around it has the details.
var ErrFailed = errors.New("failed")

type run struct {
	target *Target
	dialer *wire.Dialer
	codec  codec.ClientCodec
	memo   *wire.Memo[delivery]       // nil if no message goes to several clients
	pages  *wire.Memo[protocol.Reply] // of maps; nil where memo is
	id     uint32
	began  time.Time

	ctx  context.Context
	fail context.CancelCauseFunc // ends the run early

	channels    []string
	recoverable bool // subscriptions must be recoverable
	subscribers []*client
	publishers  []*client
	stripes     [stripes]stripe
	issued      [][]atomic.Uint64 // publications, by publisher and channel
	producers   []*producer

	phase atomic.Pointer[string]
	ready atomic.Int64 // connections that are ready
	// closing: connections of subscribers may end without being counted as lost.
	closing atomic.Bool
	turn    atomic.Uint64  // publications of producers that publish to the channels in turn
	gone    sync.WaitGroup // subscribers' sessions
	others  sync.WaitGroup // other goroutines

	mu          sync.Mutex
	disconnects map[string]int // by reason
}

// newRun prepares a run. Each subscriber gets one of the channels, in turn.
func newRun(ctx context.Context, t *Target, channels, subscribers, publishers int) (*run, error) {
	if err := wire.EnsureFiles(subscribers + publishers + spareFiles); err != nil {
		return nil, err
	}
	r := &run{
		target: t, dialer: t.dialer(),
		codec: codec.ForClient(t.Encoding), id: rand.Uint32(), began: time.Now(),
		disconnects: make(map[string]int),
	}
	r.ctx, r.fail = context.WithCancelCause(ctx)
	context.AfterFunc(r.ctx, func() {
		r.closing.Store(true)
		r.cut(r.subscribers)
		r.cut(r.publishers)
	})
	r.channels = []string{t.Channel}
	if channels > 1 {
		r.channels = make([]string, channels)
		for i := range r.channels {
			r.channels[i] = fmt.Sprintf("%s-%d", t.Channel, i)
		}
	}
	for i := range r.stripes {
		r.stripes[i].latencies = newHistogram()
	}
	if subscribers > channels {
		r.memo = wire.NewMemo[delivery](maxMemo)
		if t.Keys > 0 {
			r.pages = wire.NewMemo[protocol.Reply](maxPage)
		}
	}
	for i := range subscribers {
		r.subscribers = append(r.subscribers, &client{run: r, index: i, channel: i % channels, stripe: &r.stripes[i%stripes]})
	}
	for i := range publishers {
		r.publishers = append(r.publishers, &client{run: r, index: subscribers + i, channel: noChannel, stripe: &r.stripes[0]})
	}
	return r, nil
}

// In bytes: larger publications and pages are decoded for each client.
const (
	maxMemo = 4 << 10
	maxPage = 1 << 20
)

const spareFiles = 64

func (r *run) elapsed() int64 { return int64(time.Since(r.began)) }

func (r *run) err() error {
	if r.ctx.Err() == nil {
		return nil
	}
	return context.Cause(r.ctx)
}

func (r *run) close() {
	r.fail(context.Canceled) // has no effect if the run has failed already
	r.gone.Wait()
	r.others.Wait()
	r.dialer.Close()
}

func (r *run) cut(clients []*client) {
	for _, c := range clients {
		if conn := c.conn.Load(); conn != nil {
			conn.Cut()
		}
	}
}

// connect connects clients and waits until all are ready. If one of them fails to, or if a publisher's connection ends
// later, the run fails.
func (r *run) connect(clients []*client, sessions *sync.WaitGroup) (*ConnectResult, error) {
	latencies := shared{h: newHistogram()}
	start := time.Now()
	r.each(clients, sessions, func(c *client, ready func()) {
		began := time.Now()
		isReady := false
		err := c.session(r.ctx, false, func(*protocol.SubscribeResult) {
			latencies.record(time.Since(began))
			isReady = true
			ready()
		})
		switch {
		case !isReady:
			r.fail(fmt.Errorf("client %d: %w", c.index, err))
		case c.channel == noChannel:
			r.fail(fmt.Errorf("publisher's connection: %w", err))
		default:
			r.ended(err)
		}
	})
	took := time.Since(start)
	n := int(r.ready.Load())
	return &ConnectResult{
		Connections: len(clients), Connected: n, Seconds: seconds(took),
		PerSecond: perSecond(uint64(n), took), Latency: latencies.latency(),
	}, r.err()
}

// each runs f in a goroutine for every client, and waits until all have called ready, or the run fails. Before ready,
// target.Dialers of them run at a time.
func (r *run) each(clients []*client, sessions *sync.WaitGroup, f func(c *client, ready func())) {
	dialing := make(chan struct{}, r.target.Dialers)
	r.ready.Store(0)
	all := make(chan struct{})
	for _, c := range clients {
		select {
		case dialing <- struct{}{}:
		case <-r.ctx.Done():
			return
		}
		sessions.Go(func() {
			f(c, func() {
				<-dialing
				if r.ready.Add(1) == int64(len(clients)) {
					close(all)
				}
			})
		})
	}
	if len(clients) == 0 {
		return
	}
	select {
	case <-all:
	case <-r.ctx.Done():
	}
}

// ended counts a connection that ended though the run is not closing.
func (r *run) ended(err error) {
	if r.closing.Load() {
		return
	}
	var text string
	var closed *wire.CloseError
	if errors.As(err, &closed) {
		text = fmt.Sprintf("%d %s", closed.Code, closed.Reason)
	} else {
		// The innermost error has no address, which would make each text unique.
		for ; err != nil; err = errors.Unwrap(err) {
			text = err.Error()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.disconnects[text]; !known && len(r.disconnects) >= 20 {
		text = "other"
	}
	r.disconnects[text]++
}

func (r *run) lostConnections() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.disconnects)
}

func (r *run) issuedSeq(s account.Stamp) bool {
	if s.Publisher < 0 || s.Publisher >= len(r.issued) {
		return false
	}
	return s.Seq < r.issued[s.Publisher][s.Channel].Load()
}

// tally adds up the stripes. last is the latest delivery, in nanoseconds since the run began.
func (r *run) tally() (t tally, last int64) {
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		t.add(s.tally)
		last = max(last, s.last)
		s.mu.Unlock()
	}
	return t, last
}

func (r *run) expected() uint64 {
	perChannel := make([]uint64, len(r.channels))
	for _, channels := range r.issued {
		for i := range channels {
			perChannel[i] += channels[i].Load()
		}
	}
	var n uint64
	for _, c := range r.subscribers {
		n += perChannel[c.channel]
	}
	return n
}

func (r *run) drain() error {
	r.enter("waiting for deliveries")
	return r.await(r.expected(), func() uint64 {
		t, _ := r.tally()
		return t.received
	})
}

const awaitPause = 10 * time.Millisecond

// await waits until count returns the wanted number, or has not changed for target.Drain, measured in calls of count:
// while this process stands still, it cannot receive anything.
func (r *run) await(want uint64, count func() uint64) error {
	tick := time.NewTicker(awaitPause)
	defer tick.Stop()
	looks := int(r.target.Drain/awaitPause) + 1
	for had, left := count(), looks; had < want && left > 0; left-- {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return r.err()
		}
		if n := count(); n != had {
			had, left = n, looks
		}
	}
	return nil
}

// deliver describes the deliveries. start is the begin of publishing, in nanoseconds since the run began.
func (r *run) deliver(start int64) *DeliverResult {
	t, last := r.tally()
	d := &DeliverResult{
		Expected: r.expected(), Received: t.received, Duplicated: t.duplicated,
		Reordered: t.reordered, Corrupt: t.corrupt, Foreign: t.foreign,
	}
	merged := newHistogram()
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		merged.h.Merge(s.latencies.h)
		s.mu.Unlock()
	}
	d.Latency = merged.latency()
	for _, c := range r.subscribers {
		c.stripe.mu.Lock()
		for p, channels := range r.issued {
			d.Lost += c.ledger.Missing(p, channels[c.channel].Load())
		}
		c.stripe.mu.Unlock()
	}
	took := time.Duration(last - start)
	if took > 0 {
		d.Seconds, d.PerSecond = seconds(took), perSecond(t.received, took)
	}
	return d
}

// since describes the usage since before, in all and for each of n connections or messages; nil if the server's process
// is not known.
func (r *run) since(before *proc.Usage, n uint64, took time.Duration) (*Usage, error) {
	now, err := proc.Read(r.target.PID)
	if before == nil || err != nil {
		return nil, err
	}
	u := &Usage{CPUSeconds: seconds(now.CPU - before.CPU), MemoryBytes: now.Memory, GrownBytes: now.Memory - before.Memory}
	if took > 0 {
		u.CPUPercent = round(100 * (now.CPU - before.CPU).Seconds() / took.Seconds())
	}
	if n > 0 {
		u.CPUMicrosEach = round(float64((now.CPU - before.CPU).Microseconds()) / float64(n))
		u.BytesEach = u.GrownBytes / int64(n)
	}
	return u, nil
}
