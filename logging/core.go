package logging

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxLines and maxBytes bound the lines that wait for the handler. Lines below the level error get half of that.
	maxLines = 8192
	maxBytes = 4 << 20

	// So many lines of a kind are written within a window, then one per window, unless Limit says otherwise. Lines with
	// a new error are written beyond that, up to maxErrors.
	defaultWindow = 10 * time.Second
	defaultBurst  = 20
	maxErrors     = 8
	// maxKinds is how many kinds are limited each for itself. All other lines of a level are one kind.
	maxKinds = 512
)

// core is shared by the handlers of a log. It does not call the application's code while it holds its lock.
type core struct {
	root      slog.Handler // for the core's own lines
	unlimited bool

	mu      sync.Mutex
	burst   int           // 0: defaultBurst
	window  time.Duration // 0: defaultWindow
	queue   []line
	lines   int      // in the queue, or being written
	bytes   int      // of these lines
	dropped uint64   // lines that no line has reported yet
	lost    uint64   // lines that were dropped, or that the handler did not take
	failed  failures // for the one goroutine that writes
	// idle is closed when the goroutine that writes has ended; nil if there is none.
	idle chan struct{}

	kinds  map[kind]*history
	ticked bool // tick will be called
}

type kind struct {
	level   slog.Level
	message string
}

// history counts a kind of lines. At the end of a window the core forgets kinds without suppressed lines.
type history struct {
	written    int       // lines since the kind is known
	suppressed int       // lines in this window
	example    line      // the first suppressed line; inner is nil until it is kept
	last       time.Time // of the last suppressed line
	errors     []uint64  // hashes of the errors that were written
}

type outcome int

const (
	written    outcome = iota
	suppressed         // only counted
	example            // suppressed, and kept to stand for the others
)

// errors is the hash of the record's errors.
func (c *core) judge(r *slog.Record, errors uint64) (*history, outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.history(kind{r.Level, r.Message})
	fresh := errors != 0 && len(h.errors) < maxErrors && !slices.Contains(h.errors, errors)
	if fresh {
		h.errors = append(h.errors, errors)
	}
	if h.written < cmp.Or(c.burst, defaultBurst) || fresh {
		h.written++
		return h, written
	}
	h.suppressed++
	h.last = r.Time
	if h.suppressed == 1 {
		return h, example
	}
	return h, suppressed
}

func (c *core) history(k kind) *history {
	h := c.kinds[k]
	if h == nil && len(c.kinds) >= maxKinds {
		k.message = ""
		h = c.kinds[k]
	}
	if h == nil {
		if c.kinds == nil {
			c.kinds = make(map[kind]*history)
		}
		h = new(history)
		k.message = strings.Clone(k.message)
		c.kinds[k] = h
		c.wait()
	}
	return h
}

// keep notes the line that will stand for the suppressed ones.
func (c *core) keep(h *history, l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.example = l
}

func (c *core) wait() {
	if !c.ticked {
		c.ticked = true
		time.AfterFunc(cmp.Or(c.window, defaultWindow), c.tick)
	}
}

func (c *core) tick() {
	c.mu.Lock()
	c.ticked = false
	for k, h := range c.kinds {
		if h.suppressed == 0 {
			delete(c.kinds, k)
		}
	}
	if len(c.kinds) > 0 {
		c.wait()
	}
	c.mu.Unlock()
	c.report()
}

func (c *core) report() {
	var due []line
	c.mu.Lock()
	window := cmp.Or(c.window, defaultWindow)
	for _, h := range c.kinds {
		if h.suppressed == 0 || h.example.inner == nil {
			continue // none are suppressed, or keep is not called yet
		}
		l := h.example
		l.Time = h.last
		if others := h.suppressed - 1; others > 0 {
			l.AddAttrs(slog.Int("suppressed", others), Milliseconds("within", window))
		}
		due = append(due, l)
		h.suppressed, h.example = 0, line{}
	}
	c.mu.Unlock()
	slices.SortFunc(due, func(a, b line) int { return a.Time.Compare(b.Time) })
	for _, l := range due {
		c.put(l)
	}
}

// put queues a line if there is room, and starts the goroutine that writes.
func (c *core) put(l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	share := 2
	if l.Level >= slog.LevelError {
		share = 1
	}
	if c.lines >= maxLines/share || c.bytes+l.size > maxBytes/share {
		c.dropped++
		c.lost++
		return
	}
	c.queue = append(c.queue, l)
	c.lines++
	c.bytes += l.size
	if c.idle == nil {
		c.idle = make(chan struct{})
		go c.write()
	}
}

func (c *core) write() {
	for {
		c.mu.Lock()
		batch, dropped := c.queue, c.dropped
		c.queue, c.dropped = nil, 0
		if len(batch) == 0 && dropped == 0 {
			close(c.idle)
			c.idle = nil
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		works := true
		for i := range batch {
			l := &batch[i]
			err := l.inner.Handle(l.ctx, l.Record)
			if works = err == nil; !works {
				c.failed.lines++
				c.failed.last = err
			}
			c.done(l, err)
		}
		if !works {
			c.failed.lines += dropped // a line about them would not be written either
			continue
		}
		c.tell("log lines were dropped: they came faster than the log takes them", slog.Uint64("dropped", dropped))
		if f := &c.failed; c.tell("log lines are lost: they could not be written", slog.Uint64("lost", f.lines), slog.Any("error", f.last)) {
			*f = failures{}
		}
	}
}

// failures are lines that the handler did not take, and that no line has reported yet.
type failures struct {
	lines uint64
	last  error
}

func (c *core) done(l *line, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines--
	c.bytes -= l.size
	if err != nil {
		c.lost++
	}
	*l = line{}
}

// tell writes how many lines are missing, the first attribute, unless none are, and reports whether that line is
// written.
func (c *core) tell(message string, missing slog.Attr, more ...slog.Attr) bool {
	ctx := context.Background()
	if missing.Value.Uint64() == 0 || !c.root.Enabled(ctx, slog.LevelWarn) {
		return true
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, message, 0)
	r.AddAttrs(missing)
	r.AddAttrs(more...)
	return c.root.Handle(ctx, r) == nil
}

func (c *core) written() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		return c.idle
	}
	none := make(chan struct{})
	close(none)
	return none
}

func (c *core) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}
