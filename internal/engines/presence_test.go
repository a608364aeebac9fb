package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("connection refused")

// presenceEngine is a presence manager whose calls go wrong as a test wants.
type presenceEngine struct {
	broker.PresenceManager // nil: nobody reads

	mu      sync.Mutex
	present map[string]bool // channel/client
	calls   []string
	// fault says what becomes of a call: it takes a time, may fail then, and may be done
	// all the same, that long after it failed.
	fault func() (takes time.Duration, err error, late time.Duration)
	work  sync.WaitGroup
}

func newPresenceEngine() *presenceEngine {
	e := &presenceEngine{present: make(map[string]bool)}
	e.fails(nil)
	return e
}

// fails has calls fail at once, without effect. Nil: they succeed.
func (e *presenceEngine) fails(err error) {
	e.set(func() (time.Duration, error, time.Duration) { return 0, err, -1 })
}

func (e *presenceEngine) set(fault func() (time.Duration, error, time.Duration)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = fault
}

func (e *presenceEngine) call(ctx context.Context, name string, effect func()) error {
	e.mu.Lock()
	e.calls = append(e.calls, name)
	takes, err, late := e.fault()
	e.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	do := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		effect()
	}
	switch {
	case err == nil:
		do()
	case late >= 0:
		e.work.Go(func() {
			time.Sleep(late)
			do()
		})
	}
	return err
}

func (e *presenceEngine) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	name := ch + "/" + info.Client
	return e.call(ctx, "+"+name, func() { e.present[name] = true })
}

func (e *presenceEngine) Remove(ctx context.Context, ch, client, _ string) error {
	name := ch + "/" + client
	return e.call(ctx, "-"+name, func() { delete(e.present, name) })
}

func (e *presenceEngine) who() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(e.present)), " ")
}

// called returns the calls since it was called last.
func (e *presenceEngine) called() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	calls := strings.Join(e.calls, " ")
	e.calls = nil
	return calls
}

type stand struct {
	*testing.T
	*presenceManager
	engine *presenceEngine
	log    bytes.Buffer
}

func bubble(t *testing.T, f func(s *stand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stand{T: t, engine: newPresenceEngine()}
		s.presenceManager = newPresenceManager(s.engine, slog.New(slog.NewTextHandler(&s.log, nil)))
		f(s)
		s.engine.fails(nil)
		s.Close()
		s.engine.work.Wait()
		if n := len(s.entries); n > 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}

func (s *stand) add(name string) error {
	ch, client, _ := strings.Cut(name, "/")
	return s.Add(s.Context(), ch, &channel.ClientInfo{Client: client})
}

func (s *stand) drop(name string) {
	s.Helper()
	ch, client, _ := strings.Cut(name, "/")
	if err := s.Remove(s.Context(), ch, client, ""); err != nil {
		s.Errorf("removing %s: %v", name, err)
	}
}

// want waits for a time and says who has to be present then.
func (s *stand) want(after time.Duration, who string) {
	s.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := s.engine.who(); got != who {
		s.Fatalf("%q are present, want %q", got, who)
	}
}

// Without failures every call is made once, and nothing is remembered.
func TestPasses(t *testing.T) {
	bubble(t, func(s *stand) {
		_ = s.add("a/1")
		_ = s.add("a/2")
		s.drop("a/1")
		s.want(time.Minute, "a/2")
		if got := s.engine.called(); got != "+a/1 +a/2 -a/1" || s.log.Len() > 0 {
			t.Errorf("calls %s, log %s", got, &s.log)
		}
	})
}

// A removal that fails is repeated until the engine answers, and told once.
func TestRemovalIsRepeated(t *testing.T) {
	bubble(t, func(s *stand) {
		for i := range 100 {
			_ = s.add(fmt.Sprint("a/", i))
		}
		_ = s.add("b/1")
		s.engine.fails(errDown)
		for i := range 100 {
			s.drop(fmt.Sprint("a/", i))
		}
		time.Sleep(time.Minute)
		calls := strings.Count(s.engine.called(), "-")
		if most := int(time.Minute/(maxPause/2)) * maxWorkers; calls > most+200 {
			t.Errorf("%d calls in a minute, want at most %d", calls, most)
		}
		s.engine.fails(nil)
		s.want(maxPause, "b/1")
		time.Sleep(time.Minute)
		if lines := strings.Count(s.log.String(), "\n"); lines != 2 || !strings.Contains(s.log.String(), "removed=100") || !strings.Contains(s.log.String(), "connection refused") {
			t.Errorf("log: %s", &s.log)
		}
		if s.engine.called(); s.engine.called() != "" {
			t.Error("calls go on")
		}
	})
}

// A removal that hangs with the engine is done when the engine goes on.
func TestRemovalHangs(t *testing.T) {
	bubble(t, func(s *stand) {
		_ = s.add("a/1")
		thaw := time.Now().Add(12 * time.Second)
		s.engine.set(func() (time.Duration, error, time.Duration) {
			if left := time.Until(thaw); left > 4*time.Second {
				return 4 * time.Second, context.DeadlineExceeded, -1
			} else {
				return left, nil, -1
			}
		})
		s.drop("a/1")
		s.want(time.Until(thaw)+maxPause, "")
	})
}

// An Add that failed may be done later than the removal behind it.
func TestLateAdd(t *testing.T) {
	bubble(t, func(s *stand) {
		s.engine.set(func() (time.Duration, error, time.Duration) { return 0, errDown, time.Second })
		if err := s.add("a/1"); !errors.Is(err, errDown) {
			t.Error(err)
		}
		s.engine.fails(nil)
		s.drop("a/1")
		s.want(time.Second, "a/1")
		s.want(confirmAfter, "")
	})
}

// Who comes back is not removed by what failed before.
func TestComesBack(t *testing.T) {
	bubble(t, func(s *stand) {
		_ = s.add("a/1")
		s.engine.set(func() (time.Duration, error, time.Duration) { return 0, errDown, time.Second }) // the removal is late
		s.drop("a/1")
		s.engine.fails(nil)
		if err := s.add("a/1"); err != nil {
			t.Fatal(err)
		}
		s.want(confirmAfter, "a/1")
		s.want(time.Minute, "a/1")
		s.drop("a/1")
		s.want(0, "")
	})
}

// Who comes back while the removal is repeated waits for that, but not for longer than
// its own context allows.
func TestComesBackDuringRemoval(t *testing.T) {
	bubble(t, func(s *stand) {
		_ = s.add("a/1")
		s.engine.fails(errDown)
		s.drop("a/1")
		s.engine.set(func() (time.Duration, error, time.Duration) { return 2 * time.Second, nil, -1 })
		time.Sleep(maxPause) // the removal is under way
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := s.Add(ctx, "a", &channel.ClientInfo{Client: "1"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := s.add("a/1"); err != nil {
			t.Error(err)
		}
		s.want(time.Minute, "a/1")
	})
}

func TestBounds(t *testing.T) {
	bubble(t, func(s *stand) {
		s.limit = 100
		s.engine.fails(errDown)
		_ = s.add("a/doubtful")
		for i := range s.limit {
			s.drop(fmt.Sprint("a/", i))
		}
		if err := s.Remove(s.Context(), "a", "more", ""); !errors.Is(err, errDown) {
			t.Errorf("a removal that finds no room: %v", err)
		}
		_ = s.add("a/doubtful")
		if n := len(s.entries); n != s.limit {
			t.Errorf("%d entries", n)
		}
		s.engine.fails(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(s.entries); n != 0 || !strings.Contains(s.log.String(), "count=1 limit=100") {
			t.Errorf("%d entries, log %s", n, &s.log)
		}
	})
}

// Close tries for a bounded time.
func TestPresenceClose(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &stand{T: t, engine: newPresenceEngine()}
			s.presenceManager = newPresenceManager(s.engine, slog.New(slog.NewTextHandler(&s.log, nil)))
			_ = s.add("a/1")
			_ = s.add("a/2")
			s.engine.set(func() (time.Duration, error, time.Duration) { return 4 * time.Second, errDown, -1 })
			if err := s.add("a/3"); err == nil {
				t.Error("added")
			}
			s.drop("a/1")
			if back {
				s.engine.fails(nil)
			}
			start := time.Now()
			s.Close()
			took, log := time.Since(start), s.log.String()
			switch {
			case back && (took > maxPause || s.engine.who() != "a/2"):
				t.Errorf("Close took %v, %s are present", took, s.engine.who())
			case !back && (took != closeTimeout || !strings.Contains(log, "count=1")):
				t.Errorf("Close took %v, log %s", took, log)
			}
		})
	}
}

// In the end each client is where its newest call wants it, whatever failed, hung or was
// done late.
func TestNewestCallCounts(t *testing.T) {
	for seed := range uint64(60) {
		bubble(t, func(s *stand) {
			r := rand.New(rand.NewPCG(seed, 1))
			s.engine.set(func() (time.Duration, error, time.Duration) {
				takes := time.Duration(r.IntN(3)) * 500 * time.Millisecond
				switch r.IntN(4) {
				case 0:
					return takes, errDown, -1
				case 1:
					return takes, errDown, time.Duration(r.IntN(int(confirmAfter)))
				default:
					return takes, nil, -1
				}
			})
			var mu sync.Mutex
			want := map[string]bool{}
			var clients sync.WaitGroup
			for i := range 8 {
				name, r := fmt.Sprint("a/", i), rand.New(rand.NewPCG(seed, uint64(2+i)))
				clients.Go(func() {
					here := false
					for range 10 {
						time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
						if here = r.IntN(2) == 0 && s.add(name) == nil; !here {
							s.drop(name) // as is what could not be added
						}
					}
					mu.Lock()
					defer mu.Unlock()
					if here {
						want[name] = true
					}
				})
			}
			clients.Wait()
			s.engine.fails(nil)
			s.want(4*confirmAfter, strings.Join(slices.Sorted(maps.Keys(want)), " "))
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

func TestPresenceAllocations(t *testing.T) {
	s := newPresenceManager(presenceStill{}, slog.New(slog.DiscardHandler))
	defer s.Close()
	info := &channel.ClientInfo{Client: "c"}
	if n := testing.AllocsPerRun(1000, func() {
		_ = s.Add(t.Context(), "ch", info)
		_ = s.Remove(t.Context(), "ch", "c", "")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// presenceStill does nothing.
type presenceStill struct{ broker.PresenceManager }

func (presenceStill) Add(context.Context, string, *channel.ClientInfo) error { return nil }
func (presenceStill) Remove(context.Context, string, string, string) error   { return nil }
