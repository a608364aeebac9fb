package proxy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// fakeCarrier is a backend without a network, for tests with virtual time.
type fakeCarrier struct {
	mu      sync.Mutex
	fails   error
	takes   time.Duration
	asked   int
	current int // calls under way
	most    int
}

func (c *fakeCarrier) set(takes time.Duration, fails error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes, c.fails = takes, fails
}

func (c *fakeCarrier) prepare(Request) (attempt, error) { return c, nil }

func (c *fakeCarrier) release() {}

func (c *fakeCarrier) send(ctx context.Context, deadline time.Time, _ *From, _ Response) error {
	c.mu.Lock()
	takes, fails := c.takes, c.fails
	c.asked++
	c.current++
	c.most = max(c.most, c.current)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.current--
	}()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if !time.Now().Before(deadline) {
		return errTimeout
	}
	return fails
}

func (c *fakeCarrier) close() {}

var errBroken = errors.New("broken")

// guarded runs a test with virtual time and a proxy that allows 4 calls, lets 4 wait, and stops
// asking for 1 s after 3 failures.
func guarded(t *testing.T, test func(t *testing.T, p *Proxy, c *fakeCarrier, out *logs)) {
	synctest.Test(t, func(t *testing.T) {
		o := settings("http://backend.example")
		o.Timeout, o.Breaker.OpenFor = 10*time.Second, time.Second
		p, out := open(t, RPC, o)
		c := new(fakeCarrier)
		p.carrier = c
		test(t, p, c, out)
	})
}

// failing makes calls that have to fail with an error.
func failing(t *testing.T, p *Proxy, n int, want error) {
	t.Helper()
	for range n {
		if _, err := rpc(p); !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
	}
}

// After some failures in a row the backend is not asked for a while. Then one call tries it, and
// decides about the others.
func TestBreaker(t *testing.T) {
	guarded(t, func(t *testing.T, p *Proxy, c *fakeCarrier, out *logs) {
		for range 5 { // not in a row
			c.set(0, errBroken)
			failing(t, p, 2, errBroken)
			c.set(0, nil)
			failing(t, p, 1, nil)
		}
		c.set(0, errBroken)
		failing(t, p, 3, errBroken)
		before := c.asked
		for range 4 {
			time.Sleep(time.Second - time.Nanosecond)
			failing(t, p, 10, errOpen)
			if c.asked != before {
				t.Fatalf("asked %d times while the breaker was open", c.asked-before)
			}
			time.Sleep(2 * time.Nanosecond)
			c.set(500*time.Millisecond, errBroken)
			tried := make(chan error)
			go func() { _, err := rpc(p); tried <- err }()
			synctest.Wait()
			failing(t, p, 10, errOpen)
			if err := <-tried; !errors.Is(err, errBroken) {
				t.Error(err)
			}
			if before++; c.asked != before {
				t.Fatalf("asked %d times in place of once", c.asked-before+1)
			}
		}
		if n := strings.Count(out.String(), "refused for now"); n != 1 || !strings.Contains(out.String(), "key=rpc.proxy.breaker") {
			t.Errorf("%d lines for one outage:\n%s", n, out)
		}
		c.set(0, nil)
		time.Sleep(time.Second + time.Nanosecond)
		failing(t, p, 10, nil)
		if n := strings.Count(out.String(), "asked again"); n != 1 {
			t.Errorf("%d lines:\n%s", n, out)
		}
	})
}

// A call that tries the backend and is given up, because its client goes, decides nothing: the next
// call tries.
func TestTrialGivenUp(t *testing.T) {
	guarded(t, func(t *testing.T, p *Proxy, c *fakeCarrier, _ *logs) {
		c.set(0, errBroken)
		failing(t, p, 3, errBroken)
		time.Sleep(time.Second + time.Nanosecond)
		c.set(time.Second, nil)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if err := p.Call(ctx, nil, new(message.RPCRequest), new(message.RPCResponse)); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		failing(t, p, 2, nil)
	})
}

// A call of a client that has gone is not made at all, and is no failure.
func TestGoneBefore(t *testing.T) {
	guarded(t, func(t *testing.T, p *Proxy, c *fakeCarrier, out *logs) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 {
			if err := p.Call(ctx, nil, new(message.RPCRequest), new(message.RPCResponse)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if c.asked != 0 || out.String() != "" {
			t.Errorf("asked %d times:\n%s", c.asked, out)
		}
		failing(t, p, 1, nil)
	})
}

// 4 calls are under way, 4 wait for their turn until the timeout, and more fail at once. The log
// names the key that bounds them.
func TestQueue(t *testing.T) {
	guarded(t, func(t *testing.T, p *Proxy, c *fakeCarrier, out *logs) {
		c.set(time.Second, nil)
		for range 2 {
			errs := make(chan error, 100)
			begin := time.Now()
			for range 20 {
				go func() { _, err := rpc(p); errs <- err }()
			}
			synctest.Wait()
			for range 12 {
				if err := <-errs; !errors.Is(err, errQueue) {
					t.Error(err)
				}
			}
			if !time.Now().Equal(begin) {
				t.Error("a call waited although the queue was full")
			}
			for range 8 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(begin); c.most != 4 || took != 2*time.Second {
				t.Errorf("%d calls at a time, took %s", c.most, took)
			}
		}
		if n := strings.Count(out.String(), "\n"); c.asked != 16 || n != 1 || !strings.Contains(out.String(), "key=rpc.proxy.max_queue") {
			t.Errorf("asked %d times, %d lines:\n%s", c.asked, n, out)
		}
	})
}

// Calls whose turn does not come within the timeout fail, and give up their place if their client
// goes.
func TestTurn(t *testing.T) {
	guarded(t, func(t *testing.T, p *Proxy, c *fakeCarrier, out *logs) {
		p.guard.queue = 8
		c.set(9*time.Second, nil)
		errs := make(chan error, 100)
		ctx, cancel := context.WithCancel(t.Context())
		for range 4 {
			go func() { _, err := rpc(p); errs <- err }()
		}
		synctest.Wait()
		go func() { errs <- p.Call(ctx, nil, new(message.RPCRequest), new(message.RPCResponse)) }()
		for range 7 { // of which 4 have their turn
			go func() { _, err := rpc(p); errs <- err }()
		}
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for i, want := range []error{nil, nil, nil, nil, errTurn, errTurn, errTurn, errTimeout, errTimeout, errTimeout, errTimeout} {
			if err := <-errs; !errors.Is(err, want) {
				t.Errorf("call %d: %v, want %v", i, err, want)
			}
		}
		if n := strings.Count(out.String(), "gives no answer"); c.asked != 8 || n != 1 || !strings.Contains(out.String(), "key=rpc.proxy.max_concurrency") {
			t.Errorf("asked %d times:\n%s", c.asked, out)
		}
	})
}

// While calls fail now and then, the log has one line; another one when none has failed for a while.
func TestLines(t *testing.T) {
	guarded(t, func(t *testing.T, p *Proxy, c *fakeCarrier, out *logs) {
		for range 100 {
			c.set(0, errBroken)
			failing(t, p, 1, errBroken)
			c.set(0, nil)
			failing(t, p, 4, nil)
			time.Sleep(calm - time.Second)
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines:\n%s", n, out)
		}
		time.Sleep(2 * time.Second)
		failing(t, p, 10, nil)
		if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "answers again") || !strings.Contains(out.String(), "failures=100") {
			t.Errorf("%d lines:\n%s", n, out)
		}
	})
}

// counts is a meter.
type counts struct{ began, ended, failed int }

func (m *counts) Opened()     {}
func (m *counts) Closed(bool) {}
func (m *counts) Began()      { m.began++ }

func (m *counts) Ended(_ time.Duration, failed bool) {
	m.ended++
	if failed {
		m.failed++
	}
}

// Every call is measured. It has failed unless it was answered, or given up because the client went.
func TestMeter(t *testing.T) {
	guarded(t, func(t *testing.T, p *Proxy, c *fakeCarrier, _ *logs) {
		m := new(counts)
		p.meter = m
		failing(t, p, 3, nil)
		c.set(0, errBroken)
		failing(t, p, 3, errBroken)
		failing(t, p, 2, errOpen)
		time.Sleep(2 * time.Second)
		c.set(time.Second, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.Call(ctx, nil, new(message.RPCRequest), new(message.RPCResponse)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if *m != (counts{9, 9, 5}) {
			t.Errorf("%+v", *m)
		}
	})
}
