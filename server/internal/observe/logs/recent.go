package logs

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
)

const (
	maxRecent, maxRecentBytes = 500, 1 << 20
	// Of a longer line the attributes are left out.
	maxRecentLine = 16 << 10
)

// Recent keeps the latest warnings and errors of a log: 500 lines, and 1 MiB, at most. Any goroutine may call its
// methods.
type Recent struct {
	mu    sync.Mutex
	lines [][]byte // JSON
	size  int      // of lines, bytes
	first uint64   // the number of lines[0]
	more  chan struct{}
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent { return &Recent{more: make(chan struct{})} }

// Handler hands lines to next, and keeps lines from warn on, even if the level of next is higher. It belongs below
// logging.Wrap, which limits lines that repeat.
func (r *Recent) Handler(next slog.Handler) slog.Handler {
	out := &recentLine{to: r}
	out.json = slog.NewJSONHandler(&out.text, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: logAttr})
	return &recentHandler{next: next, json: out.json, out: out}
}

// Since returns the lines from number n on, the oldest first, and the next number. more is closed when there are more.
func (r *Recent) Since(n uint64) (lines [][]byte, next uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = r.first + uint64(len(r.lines))
	if n < r.first {
		n = r.first
	}
	if n < next {
		lines = append(lines, r.lines[n-r.first:]...)
	}
	return lines, next, r.more
}

func (r *Recent) add(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	r.size += len(line)
	for len(r.lines) > maxRecent || r.size > maxRecentBytes {
		r.size -= len(r.lines[0])
		r.lines[0] = nil
		r.lines = r.lines[1:]
		r.first++
	}
	close(r.more)
	r.more = make(chan struct{})
}

type recentLine struct {
	mu   sync.Mutex
	to   *Recent
	json slog.Handler // writes into text
	text bytes.Buffer
}

// recentHandler implements slog.Handler.
type recentHandler struct {
	next, json slog.Handler
	out        *recentLine
}

// Enabled implements slog.Handler.
func (h *recentHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || h.next.Enabled(ctx, l)
}

// Unwrap returns the next handler.
func (h *recentHandler) Unwrap() slog.Handler { return h.next }

// WithAttrs implements slog.Handler.
func (h *recentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recentHandler{next: h.next.WithAttrs(attrs), json: h.json.WithAttrs(attrs), out: h.out}
}

// WithGroup implements slog.Handler.
func (h *recentHandler) WithGroup(name string) slog.Handler {
	return &recentHandler{next: h.next.WithGroup(name), json: h.json.WithGroup(name), out: h.out}
}

// Handle implements slog.Handler.
func (h *recentHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.out.keep(ctx, h.json, r)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (l *recentLine) keep(ctx context.Context, h slog.Handler, r slog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
	if h.Handle(ctx, r) != nil { // writes to l.text cannot fail
		return
	}
	if l.text.Len() > maxRecentLine {
		l.text = bytes.Buffer{}
		short := slog.NewRecord(r.Time, r.Level, r.Message[:min(len(r.Message), maxRecentLine/8)], 0)
		short.AddAttrs(slog.String("left_out", "the attributes of the line, which are too long"))
		if l.json.Handle(ctx, short) != nil {
			return
		}
	}
	l.to.add(bytes.Clone(l.text.Bytes()))
}
