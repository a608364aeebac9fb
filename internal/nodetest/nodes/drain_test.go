package nodes

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// departures notes when clients were disconnected, by time since it was made.
type departures struct {
	start time.Time
	mu    sync.Mutex
	codes map[uint32]int
	times []time.Duration
}

func newDepartures() *departures {
	return &departures{start: time.Now(), codes: make(map[uint32]int)}
}

func (d *departures) handlers() gyro.Handlers {
	return gyro.Handlers{Connecting: nodetest.As, Disconnected: func(_ context.Context, _ *gyro.Client, e gyro.DisconnectEvent) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.codes[e.Disconnect.Code]++
		d.times = append(d.times, time.Since(d.start))
	}}
}

// before counts the departures until then.
func (d *departures) before(then time.Duration) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.times {
		if at < then {
			n++
		}
	}
	return n
}

func TestDrainIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, over = 4000, 10 * time.Second
		d := newDepartures()
		node := nodetest.Run(t, gyro.Config{Handlers: d.handlers()})
		for range clients {
			nodetest.Connect(t, node, "u")
		}
		d.start = time.Now()
		nodetest.Must(t, node.Drain(t.Context(), over))
		synctest.Wait()
		if took := time.Since(d.start); took < over*9/10 || took > over+100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		for i := range 10 {
			then := time.Duration(i+1) * over / 10
			if n := d.before(then); n < clients*(i+1)/10-clients/20 || n > clients*(i+1)/10+clients/20 {
				t.Errorf("after %v %d of %d are gone", then, n, clients)
			}
		}
		if d.codes[protocol.DisconnectShutdown.Code] != clients {
			t.Errorf("disconnected with %v", d.codes)
		}
		if _, err := wstest.Open(t.Context(), t, node, protocol.JSON); !errors.Is(err, protocol.DisconnectShutdown) {
			t.Errorf("Accept returned %v", err)
		}
		if h := node.Health()[0]; h.Err == nil || !strings.Contains(h.Err.Error(), "shutting down") {
			t.Errorf("health: %v", h.Err)
		}
		// Everything else still works.
		if _, err := node.Publish(t.Context(), "ch", []byte(`1`), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestDrainOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDepartures()
		node := nodetest.Run(t, gyro.Config{Handlers: d.handlers()})
		for range 3 {
			nodetest.Connect(t, node, "u")
		}
		d.start = time.Now()
		nodetest.Must(t, node.Drain(t.Context(), time.Hour))
		if took := time.Since(d.start); took > time.Second {
			t.Errorf("it took %v", took)
		}
		nodetest.Must(t, node.Drain(t.Context(), time.Hour)) // nobody is left
	})
}

func TestDrainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDepartures()
		node := nodetest.Run(t, gyro.Config{Handlers: d.handlers()})
		for range 100 {
			nodetest.Connect(t, node, "u")
		}
		d.start = time.Now()
		nodetest.Must(t, node.Drain(t.Context(), 0))
		synctest.Wait()
		if took := time.Since(d.start); took != 0 || d.before(time.Nanosecond) != 100 {
			t.Errorf("%d are gone after %v", d.before(time.Nanosecond), took)
		}
	})
}

func TestDrainIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDepartures()
		node := nodetest.Run(t, gyro.Config{Handlers: d.handlers()})
		for range 4000 {
			nodetest.Connect(t, node, "u")
		}
		d.start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := node.Drain(ctx, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain returned %v", err)
		}
		if n := d.before(time.Minute); n < 1800 || n > 2200 {
			t.Errorf("%d are gone", n)
		}
		done := make(chan error)
		go func() { done <- node.Drain(t.Context(), time.Hour) }()
		nodetest.Must(t, node.Shutdown(t.Context()))
		nodetest.Must(t, <-done)
		if d.codes[protocol.DisconnectShutdown.Code] != 4000 {
			t.Errorf("disconnected with %v", d.codes)
		}
	})
}

func TestDrainOfANodeThatDoesNotRun(t *testing.T) {
	node, err := gyro.New(gyro.Config{})
	nodetest.Must(t, err)
	nodetest.Must(t, node.Drain(t.Context(), time.Hour))
}
