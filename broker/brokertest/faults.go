package brokertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/internal/record"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const pauses = 100 * time.Millisecond

// RunFaults tests what an engine has acknowledged while Capabilities.Fault makes faults: publications, removals of
// presence, and control messages if it carries any. The brokers of one test share a backend. newPresence may be nil.
// RunBroker, RunPresence and RunControl test the same without faults.
func RunFaults(t *testing.T, newBroker func(t testing.TB) broker.Broker, newPresence func(t testing.TB) broker.PresenceManager, caps Capabilities) {
	caps = caps.withDefaults()
	t.Run("Acknowledged", func(t *testing.T) { testAcknowledged(newFixture(t, newBroker(t), caps, new(closedBrokers))) })
	if newPresence != nil {
		t.Run("RemovedStays", func(t *testing.T) {
			f := &fixture{T: t, caps: caps, ctx: context.Background()}
			testPresenceRemovedStays(&presenceFixture{fixture: f, p: newPresence(t)})
		})
	}
	t.Run("Control", func(t *testing.T) { RunControl(t, newBroker, caps) })
}

// during starts goroutines that call work with turn 0, 1, 2 and so on during a random schedule of faults; without
// faults, for 200 turns.
func (f *fixture) during(workers int, work func(worker, turn int)) {
	f.Helper()
	var over atomic.Bool
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for turn := 0; !over.Load() && (f.caps.Fault != nil || turn < 200); turn++ {
				work(w, turn)
				time.Sleep(time.Millisecond) // the rate of the load
			}
		})
	}
	defer group.Wait()
	if f.caps.Fault == nil {
		return
	}
	defer over.Store(true)
	r := rand.New(rand.NewPCG(f.caps.Seed, 0))
	f.Logf("seed %d", f.caps.Seed)
	for range 2 + r.IntN(4) {
		time.Sleep(time.Duration(r.Int64N(int64(pauses)))) // faults begin at random times
		f.caps.Fault(f, r)
	}
}

// promise is a publication that a test made.
type promise struct {
	position channel.StreamPosition
	doubtful bool // it was answered with an error
}

// testAcknowledged checks that acknowledged publications are delivered once and in order, and are in the history, unless
// HandleLoss or another epoch tells of a loss.
func testAcknowledged(f *fixture) {
	const channels = 4
	names := make([]string, channels)
	promises := make([][]promise, channels) // by channel and number
	for i := range names {
		names[i] = f.channel()
	}
	publish := func(c int) error {
		opts := f.kept(100_000)
		ctx, cancel := context.WithTimeout(f.ctx, wait.Limit)
		defer cancel()
		result, err := f.broker.Publish(ctx, names[c], &channel.Publication{Data: strconv.AppendInt(nil, int64(len(promises[c])), 10)}, opts)
		promises[c] = append(promises[c], promise{result.Position, err != nil})
		return err
	}
	f.during(channels, func(c, _ int) { _ = publish(c) }) // promises tell of errors
	for c, ch := range names {
		wait.Success(f, "the delivery of a publication", func() error {
			if err := publish(c); err != nil {
				return err
			}
			last := len(promises[c]) - 1
			_, err := f.events.Wait(ch, time.Second, func(events []event) bool {
				return slices.ContainsFunc(events, func(e event) bool { return number(e.Pub) == last })
			})
			return err
		})
		f.judge(ch, promises[c])
		if f.traits.History {
			f.judgeHistory(ch, promises[c])
		}
	}
}

func number(pub *channel.Publication) int {
	n, err := strconv.Atoi(string(pub.Data))
	if err != nil {
		return -1
	}
	return n
}

func (f *fixture) judge(ch string, promises []promise) {
	f.Helper()
	last, seen := -1, make(map[int]bool)
	for k, e := range f.events.Of(ch) {
		n := number(e.Pub)
		switch {
		case n < 0 || n >= len(promises) || seen[n]:
			f.Errorf("%s: event %d is %v: nobody published it, or it came before", ch, k, e)
			return
		case !promises[n].doubtful && f.traits.History && (channel.StreamPosition{Offset: e.Pub.Offset, Epoch: e.Epoch}) != promises[n].position:
			f.Errorf("%s: event %d is %v in epoch %s, acknowledged with %+v", ch, k, e, e.Epoch, promises[n].position)
		case n < last && !promises[n].doubtful:
			f.Errorf("%s: event %d is %v, behind number %d", ch, k, e, last)
		}
		seen[n] = true
		for missing := last + 1; missing < n; missing++ {
			if !promises[missing].doubtful && !seen[missing] && !f.events.Lost(ch, k) {
				f.Errorf("%s: number %d is missing in front of event %d (%v), and HandleLoss was not called", ch, missing, k, e)
			}
		}
		last = max(last, n)
	}
}

func (f *fixture) judgeHistory(ch string, promises []promise) {
	f.Helper()
	var h broker.History
	wait.Success(f, "the history", func() (err error) {
		h, err = f.broker.History(f.ctx, ch, broker.HistoryFilter{Limit: -1})
		return err
	})
	offsets := make(map[int]uint64)
	for _, pub := range h.Publications {
		if at, twice := offsets[number(pub)]; twice {
			f.Errorf("%s: number %d is at the offsets %d and %d", ch, number(pub), at, pub.Offset)
		}
		offsets[number(pub)] = pub.Offset
	}
	for n, p := range promises {
		if p.doubtful || p.position.Epoch != h.Top.Epoch {
			continue
		}
		if offsets[n] != p.position.Offset {
			f.Errorf("%s: number %d, acknowledged with %+v, is at the offset %d of the history (0: nowhere)", ch, n, p.position, offsets[n])
		}
	}
}

// testPresenceRemovedStays checks that a removed client is not present, and a renewed one is, while others come and go.
func testPresenceRemovedStays(f *presenceFixture) {
	ch := f.name()
	const workers = 4
	kept, gone := make([]string, workers), make([][]string, workers)
	f.during(workers, func(w, turn int) {
		ctx, cancel := context.WithTimeout(f.ctx, wait.Limit)
		defer cancel()
		kept[w] = fmt.Sprint("kept", w)
		_ = f.p.Add(ctx, ch, clientInfo(kept[w], "u")) // renewed again and again
		client := fmt.Sprint("gone", w, "-", turn)
		if f.p.Add(ctx, ch, clientInfo(client, "u")) != nil {
			return
		}
		if f.p.Remove(ctx, ch, client, "u") == nil {
			gone[w] = append(gone[w], client)
		}
	})
	for _, client := range kept {
		wait.Success(f, "a presence", func() error { return f.p.Add(f.ctx, ch, clientInfo(client, "u")) })
	}
	present, err := f.p.Presence(f.ctx, ch)
	f.must(err)
	for w := range workers {
		if present[kept[w]] == nil {
			f.Errorf("client %s, who was added, is not present", kept[w])
		}
		for _, client := range gone[w] {
			if present[client] != nil {
				f.Errorf("client %s, who was removed, is present", client)
			}
		}
	}
}

// RunControl tests brokers that carry control messages: each node that an acknowledged message is for handles it once.
// During faults it handles it at most once; after them, messages arrive again.
func RunControl(t *testing.T, newBroker func(t testing.TB) broker.Broker, caps Capabilities) {
	const nodes = 3
	c := &controlNodes{fixture: &fixture{T: t, caps: caps.withDefaults(), ctx: context.Background()}}
	for range nodes {
		c.start(newBroker(t))
	}
	sent := make([][]controlMessage, nodes)
	c.during(nodes, func(by, turn int) {
		if m, err := c.send(by, turn); err == nil {
			sent[by] = append(sent[by], m)
		}
	})
	for by := range nodes {
		c.awaitNext(by)
		for _, m := range sent[by] {
			if c.caps.Fault == nil {
				wait.Success(c, "a message", func() error { return c.missing(m) })
			}
		}
	}
	c.sendToNobody(c.controllers[0])
	c.checkHeard()
}

type controlNodes struct {
	*fixture
	controllers []broker.Controller

	mu    sync.Mutex
	heard []map[string]int // by node: how often it has handled each message
}

// controlMessage is for the node to, or for all nodes if that is empty.
type controlMessage struct{ to, text string }

func nodeName(i int) string { return fmt.Sprint("node", i) }

func (c *controlNodes) start(b broker.Broker) {
	controller := b.Describe().Control
	if controller == nil {
		c.Skip("the traits of the engine do not offer this")
	}
	i, heard := len(c.controllers), make(map[string]int)
	c.controllers, c.heard = append(c.controllers, controller), append(c.heard, heard)
	c.must(controller.RunControl(nodeName(i), func(data []byte) {
		c.mu.Lock()
		defer c.mu.Unlock()
		heard[string(data)]++
	}))
	c.must(b.Run(record.New()))
	c.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			c.Error(err)
		}
	})
}

// send sends to each of the nodes in turn, then to all.
func (c *controlNodes) send(by, turn int) (controlMessage, error) {
	ctx, cancel := context.WithTimeout(c.ctx, wait.Limit)
	defer cancel()
	var m controlMessage
	if to := turn % (len(c.controllers) + 1); to < len(c.controllers) {
		m.to = nodeName(to)
	}
	m.text = fmt.Sprint(by, "-", turn, " ", m.to)
	return m, c.controllers[by].PublishControl(ctx, m.to, []byte(m.text))
}

func (c *controlNodes) missing(m controlMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, heard := range c.heard {
		if (m.to == "" || m.to == nodeName(i)) && heard[m.text] == 0 {
			return fmt.Errorf("node %d did not hear %s for %q", i, m.text, m.to)
		}
	}
	return nil
}

// awaitNext sends messages of a node to all nodes until all hear one.
func (c *controlNodes) awaitNext(by int) {
	nodes := len(c.controllers)
	turn := 1_000_000 // not used before
	wait.Success(c, "a message that all hear", func() error {
		turn += nodes + 1 - (turn+1)%(nodes+1)
		m, err := c.send(by, turn)
		if err != nil {
			return err
		}
		wait.Within(time.Second, func() bool { err = c.missing(m); return err == nil })
		return err
	})
}

func (c *controlNodes) checkHeard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, heard := range c.heard {
		for text, times := range heard {
			if times > 1 {
				c.Errorf("node %d heard %q %d times", i, text, times)
			}
			if _, to, ok := strings.Cut(text, " "); !ok || to != "" && to != nodeName(i) {
				c.Errorf("node %d heard %q, which is for another node", i, text)
			}
		}
	}
}

// sendToNobody: the engine may know that the node is not there.
func (f *fixture) sendToNobody(c broker.Controller) {
	wait.Success(f, "the answer that a node is not there, or none", func() error {
		if err := c.PublishControl(f.ctx, "nobody", []byte("lost")); !errors.Is(err, broker.ErrNoReceiver) {
			return err
		}
		return nil
	})
}
