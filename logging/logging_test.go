package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// sink is a handler that remembers, and that waits while it is stuck.
type sink struct {
	mu    sync.Mutex
	stuck sync.RWMutex
	text  bytes.Buffer
	json  slog.Handler
}

func newSink(level slog.Level) *sink {
	s := new(sink)
	s.json = slog.NewJSONHandler(&s.text, &slog.HandlerOptions{Level: level})
	return s
}

func (s *sink) Enabled(ctx context.Context, l slog.Level) bool { return s.json.Enabled(ctx, l) }
func (s *sink) WithAttrs(a []slog.Attr) slog.Handler           { return derived{s, s.json.WithAttrs(a)} }
func (s *sink) WithGroup(name string) slog.Handler             { return derived{s, s.json.WithGroup(name)} }
func (s *sink) Handle(ctx context.Context, r slog.Record) error {
	return s.handle(ctx, s.json, r)
}

func (s *sink) handle(ctx context.Context, h slog.Handler, r slog.Record) error {
	s.stuck.RLock()
	defer s.stuck.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.Handle(ctx, r)
}

type derived struct {
	sink *sink
	slog.Handler
}

func (d derived) Handle(ctx context.Context, r slog.Record) error {
	return d.sink.handle(ctx, d.Handler, r)
}
func (d derived) WithAttrs(a []slog.Attr) slog.Handler {
	return derived{d.sink, d.Handler.WithAttrs(a)}
}
func (d derived) WithGroup(name string) slog.Handler {
	return derived{d.sink, d.Handler.WithGroup(name)}
}

// lines are the records that were written.
func (s *sink) lines(t *testing.T) (lines []map[string]any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for text := range strings.Lines(s.text.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		lines = append(lines, m)
	}
	return lines
}

// number is an attribute that is a number; 0 without it.
func number(line map[string]any, key string) int {
	n, _ := line[key].(float64)
	return int(n)
}

// account adds up what the lines tell of: themselves, and those that were left out.
func account(lines []map[string]any) (all int) {
	for _, l := range lines {
		if n := number(l, "dropped"); n > 0 {
			all += n
			continue
		}
		all += 1 + number(l, "suppressed")
	}
	return all
}

// state is what the core of a logger holds.
func state(l *slog.Logger) (lines, bytes, kinds int) {
	c := l.Handler().(*handler).core
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines, c.bytes, len(c.kinds)
}

// flush waits until all lines are written, on a busy machine for longer than Flush alone.
func flush(t *testing.T, l *slog.Logger) {
	t.Helper()
	wait.Success(t, "all lines are written", func() error { return Flush(l) })
}

func TestHandler(t *testing.T) {
	s := newSink(slog.LevelInfo)
	l := Wrap(slog.New(s))
	if err := slogtest.TestHandler(l.Handler(), func() []map[string]any {
		flush(t, l)
		return s.lines(t)
	}); err != nil {
		t.Error(err)
	}
}

func TestWrap(t *testing.T) {
	l := Wrap(nil)
	if again := Wrap(l); again != l {
		t.Error("wrapped twice")
	}
	if with := l.With("a", 1); Wrap(with) != with {
		t.Error("wrapped twice, with attributes")
	}
	if err := Flush(slog.Default()); err != nil {
		t.Errorf("Flush of another logger: %v", err)
	}
}

// TestStuck: a handler that takes nothing holds up nobody, what waits for it has a
// bound, errors find room where others do not, and all is accounted for at the end.
func TestStuck(t *testing.T) {
	s := newSink(slog.LevelDebug)
	l := Wrap(slog.New(s))
	s.stuck.Lock()
	const each, callers = 5000, 4
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for i := range each {
				l.Debug("often", "i", i, "text", strings.Repeat("x", rand.IntN(500)))
			}
		})
	}
	group.Wait()
	if lines, bytes, _ := state(l); lines > maxLines/2 || bytes > maxBytes/2 || lines < 1000 {
		t.Errorf("%d lines of %d bytes wait", lines, bytes)
	}
	l.Error("important")
	l.Info("dropped, too")
	s.stuck.Unlock()
	flush(t, l)
	lines := s.lines(t)
	if got := account(lines); got != each*callers+2 {
		t.Errorf("%d lines are accounted for, want %d", got, each*callers+2)
	}
	if !strings.Contains(s.text.String(), `"important"`) {
		t.Error("the error was dropped")
	}
	if lines, bytes, _ := state(l); lines != 0 || bytes != 0 {
		t.Errorf("%d lines, %d bytes are left", lines, bytes)
	}
}

// TestBytes: few great lines fill the queue as well.
func TestBytes(t *testing.T) {
	s := newSink(slog.LevelDebug)
	l := Wrap(slog.New(s))
	s.stuck.Lock()
	for range 100 {
		l.Debug("great", slog.Group("g", "text", strings.Repeat("x", 64<<10)))
	}
	if _, bytes, _ := state(l); bytes > maxBytes/2 || bytes < maxBytes/2-128<<10 {
		t.Errorf("%d bytes wait", bytes)
	}
	s.stuck.Unlock()
	flush(t, l)
	if got := account(s.lines(t)); got != 100 {
		t.Errorf("%d lines are accounted for", got)
	}
}

// TestRepeated: of a line that repeats itself for a minute, the first ones are written,
// then one per defaultWindow, which tells of the others; and nothing remains of the kind.
func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(slog.LevelInfo)
		l := Wrap(slog.New(s))
		const rate, seconds = 1000, 60
		for range seconds {
			for i := range rate {
				l.Info("refused", "client", i)
			}
			time.Sleep(time.Second)
		}
		l.Info("something else")
		time.Sleep(3 * defaultWindow)
		lines := s.lines(t)
		if got := account(lines); got != rate*seconds+1 {
			t.Errorf("%d lines are accounted for, want %d", got, rate*seconds+1)
		}
		if most := defaultBurst + 1 + seconds/10 + 1; len(lines) > most || len(lines) < defaultBurst+seconds/10 {
			t.Errorf("%d lines, at most %d", len(lines), most)
		}
		if _, _, kinds := state(l); kinds != 0 {
			t.Errorf("%d kinds are known", kinds)
		}
		l.Info("refused", "client", "the last") // the kind is as good as new
		flush(t, l)
		if lines := s.lines(t); lines[len(lines)-1]["client"] != "the last" {
			t.Errorf("the last line is %v", lines[len(lines)-1])
		}
	})
}

// TestDebugIsNotLimited: who asks for debug wants all lines.
func TestDebugIsNotLimited(t *testing.T) {
	s := newSink(slog.LevelDebug)
	l := Wrap(slog.New(s))
	for range 10 * defaultBurst {
		l.Debug("request")
	}
	flush(t, l)
	if n := len(s.lines(t)); n != 10*defaultBurst {
		t.Errorf("%d lines", n)
	}
}

// TestUnlimited: for somebody who reads along, every line is written, and once.
func TestUnlimited(t *testing.T) {
	s := newSink(slog.LevelInfo)
	l := Unlimited(slog.New(s))
	for range 10 * defaultBurst {
		l.Info("again")
	}
	if Wrap(l) != l {
		t.Error("it is wrapped once more")
	}
	flush(t, l)
	if n := len(s.lines(t)); n != 10*defaultBurst {
		t.Errorf("%d lines", n)
	}
}

// TestNewErrors: among repeated lines, those with an error that did not show yet come
// through, but not any number of them.
func TestNewErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(slog.LevelInfo)
		l := Wrap(slog.New(s))
		common := errors.New("common")
		for range 10 * defaultBurst {
			l.Error("failed", "error", common)
		}
		l.Error("failed", "error", fmt.Errorf("rare: %w", common))
		l.Error("of another kind")
		flush(t, l)
		if text := s.text.String(); !strings.Contains(text, `"rare: common"`) || !strings.Contains(text, "of another kind") {
			t.Errorf("an error is missing:\n%s", text)
		}
		before := len(s.lines(t))
		for i := range 1000 {
			l.Error("failed", "error", fmt.Errorf("number %d", i))
		}
		time.Sleep(3 * defaultWindow)
		lines := s.lines(t)
		if n := len(lines) - before; n > maxErrors+1 {
			t.Errorf("%d lines of many errors", n)
		}
		if got, want := account(lines), 10*defaultBurst+2+1000; got != want {
			t.Errorf("%d lines are accounted for, want %d", got, want)
		}
	})
}

// TestManyKinds: what is known of kinds has a bound, and those that are not told apart
// are accounted for, too.
func TestManyKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(slog.LevelInfo)
		l := Wrap(slog.New(s))
		const kinds = 5000
		for i := range kinds {
			l.Warn(fmt.Sprint("message ", i))
		}
		if _, _, n := state(l); n > maxKinds+1 {
			t.Errorf("%d kinds are known", n)
		}
		time.Sleep(2 * defaultWindow)
		if got := account(s.lines(t)); got != kinds {
			t.Errorf("%d lines are accounted for", got)
		}
	})
}

// mutable changes after it was logged, as what belongs to a loop does.
type mutable struct{ n int }

func (m *mutable) Error() string                { return fmt.Sprint("error ", m.n) }
func (m *mutable) MarshalText() ([]byte, error) { return fmt.Append(nil, "text ", m.n), nil }

type valuer struct{ m *mutable }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("n", v.m.n), slog.Any("m", v.m))
}

// TestFrozen: attributes say what they said during the call, and -race finds nothing.
func TestFrozen(t *testing.T) {
	s := newSink(slog.LevelInfo)
	l := Wrap(slog.New(s))
	s.stuck.Lock()
	m := &mutable{n: 1}
	list := []*mutable{m}
	with := l.With("attr", m).WithGroup("group")
	with.Info("line", "error", error(m), "list", list, "map", map[string]int{"n": m.n}, "valuer", valuer{m}, "array", [2]int{m.n, 2})
	var none *mutable
	l.Info("nil", "error", error(none), "any", nil)
	m.n = 2
	list[0] = &mutable{n: 3}
	s.stuck.Unlock()
	flush(t, l)
	want := `"attr":"error 1","group":{"error":"error 1","list":["text 1"],"map":{"n":1},"valuer":{"n":1,"m":"error 1"},"array":[1,2]}}`
	if text := s.text.String(); !strings.Contains(text, want) || !strings.Contains(text, `"any":null`) {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

// TestErrorsStayErrors: a handler can still look into an error.
func TestErrorsStayErrors(t *testing.T) {
	a, _ := freeze(slog.Any("error", fmt.Errorf("x: %w", context.Canceled)))
	if err, ok := a.Value.Any().(error); !ok || !errors.Is(err, context.Canceled) || err.Error() != "x: context canceled" {
		t.Errorf("got %#v", a.Value.Any())
	}
}

// TestFlush: what was suppressed is told at once, and a stuck handler is not waited for
// without end.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(slog.LevelInfo)
		l := Wrap(slog.New(s))
		for range defaultBurst + 7 {
			l.Info("often")
		}
		flush(t, l)
		if got := account(s.lines(t)); got != defaultBurst+7 {
			t.Errorf("%d lines are accounted for", got)
		}
		entered, leave := make(chan struct{}), make(chan struct{})
		stuck := Wrap(slog.New(handlerFunc(func() { close(entered); <-leave })))
		stuck.Info("never taken")
		<-entered
		start := time.Now()
		if err := Flush(stuck); err == nil || !strings.Contains(err.Error(), "1 lines") || time.Since(start) != patience {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(leave)
		flush(t, stuck)
	})
}

type handlerFunc func()

func (handlerFunc) Enabled(context.Context, slog.Level) bool    { return true }
func (f handlerFunc) Handle(context.Context, slog.Record) error { f(); return nil }
func (f handlerFunc) WithAttrs([]slog.Attr) slog.Handler        { return f }
func (f handlerFunc) WithGroup(string) slog.Handler             { return f }

// TestDisabledIsFree: a level that is off costs nothing, and evaluates nothing.
func TestDisabledIsFree(t *testing.T) {
	l := Wrap(slog.New(newSink(slog.LevelWarn)))
	v := valuer{} // evaluating it would panic
	if n := testing.AllocsPerRun(100, func() { l.LogAttrs(context.Background(), slog.LevelInfo, "off", slog.Any("v", &v)) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAccounted: whatever is logged by many at a time, all of it is written or counted.
func TestAccounted(t *testing.T) {
	for range 20 {
		s := newSink(slog.LevelDebug)
		l := Wrap(slog.New(s))
		var group sync.WaitGroup
		levels := []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
		for range 4 {
			group.Go(func() {
				for range 500 {
					l.Log(t.Context(), levels[rand.IntN(len(levels))], fmt.Sprint(rand.IntN(3)), "error", fmt.Errorf("%d", rand.IntN(10)))
					if rand.IntN(100) == 0 {
						_ = Flush(l)
					}
				}
			})
		}
		group.Wait()
		flush(t, l)
		if got := account(s.lines(t)); got != 2000 {
			t.Fatalf("%d lines are accounted for", got)
		}
	}
}

func BenchmarkSuppressed(b *testing.B) {
	l := Wrap(slog.New(newSink(slog.LevelInfo)))
	err := errors.New("token is expired")
	b.ReportAllocs()
	for b.Loop() {
		l.Info("refused", "client", "5f1c", "reason", err)
	}
}

// TestLimit: a limit that is changed holds from the next line on, for loggers made before as well.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newSink(slog.LevelInfo)
		log := Wrap(slog.New(out))
		part := log.With("part", 1)
		Limit(log, 2, time.Minute)
		for range 5 {
			part.Info("again")
		}
		if err := Flush(log); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.text.String(), "again"); n != 3 || !strings.Contains(out.text.String(), `"within_ms":60000`) {
			t.Errorf("%d lines:\n%s", n, out.text.String())
		}
		Limit(log, 100, 0)
		for range 50 {
			part.Info("again")
		}
		if err := Flush(log); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.text.String(), "again"); n != 53 {
			t.Errorf("%d lines", n)
		}
	})
}

// failing is a handler that takes lines, or does not.
type failing struct {
	slog.Handler
	err error
}

func (f *failing) Handle(ctx context.Context, r slog.Record) error {
	if f.err != nil {
		return f.err
	}
	return f.Handler.Handle(ctx, r)
}

// TestFailingHandler: lines that the handler does not take are counted, and told of when it takes one again.
func TestFailingHandler(t *testing.T) {
	s := newSink(slog.LevelInfo)
	h := &failing{Handler: s}
	log := Wrap(slog.New(h))
	flush := func() {
		t.Helper()
		if err := Flush(log); err != nil {
			t.Fatal(err)
		}
	}
	h.err = errors.New("no space")
	for range 3 {
		log.Info("lost")
		flush()
	}
	if n := Dropped(log); n != 3 || len(s.lines(t)) != 0 {
		t.Errorf("%d lines are counted, %v are written", n, s.lines(t))
	}
	h.err = nil
	for range 2 {
		log.Info("written")
		flush()
	}
	lines := s.lines(t)
	if len(lines) != 3 || lines[1]["level"] != "WARN" || lines[1]["lost"] != 3.0 || lines[1]["error"] != "no space" {
		t.Errorf("%v", lines)
	}
	if n := Dropped(log); n != 3 {
		t.Errorf("%d lines are counted", n)
	}
	if n := Dropped(slog.New(h)); n != 0 {
		t.Errorf("%d lines of another logger", n)
	}
}

// TestMilliseconds: durations are numbers of one unit.
func TestMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		407758 * time.Nanosecond: "took_ms=0.408", 2 * time.Second: "took_ms=2000", 0: "took_ms=0", time.Hour + time.Microsecond: "took_ms=3.600000001e+06",
	} {
		if got := Milliseconds("took", d).String(); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
