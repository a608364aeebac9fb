// Package logging keeps a log from holding up the program that writes it, and from filling the disk. A logger that Wrap
// returns never waits for its handler: lines go through a bounded queue, and a goroutine writes them. It limits lines
// that repeat themselves. It counts the lines that it leaves out, and the log says how many they were.
package logging

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Wrap returns a logger that hands its lines to the handler of l, in their order, and never blocks. A nil l is
// slog.Default(); a logger that Wrap made is returned as it is.
//
// Lines of the same level and message are one kind, and limited together: 20 are written within ten seconds, then one
// every ten seconds, whose attributes "suppressed" and "within_ms" are the number of lines that were left out and
// their time span. Beyond that, lines with an error that is new for the kind are written, for up to 8 different
// errors. Levels below info are not limited.
//
// Up to 8,192 lines and 4 MiB wait for the handler; lines below the level error get half of these limits. Lines that do
// not fit are dropped. A line with their number follows. If the handler returns an error, because the disk is full for
// example, the line is lost; a line with the number of lost lines follows when the handler takes one again. Dropped
// counts both.
//
// Attributes are evaluated during the call: their slog.LogValuers are resolved, and errors and
// other values that can change are replaced by their text or JSON. The handler gets a context
// that has the values of the caller's context and does not end. Its Enabled is called during
// each log call, and must not block.
func Wrap(l *slog.Logger) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	inner := l.Handler()
	if _, ok := inner.(*handler); ok {
		return l
	}
	return slog.New(&handler{core: &core{root: inner}, inner: inner})
}

// Unlimited is Wrap without limits on lines that repeat themselves, for a terminal that a developer reads.
func Unlimited(l *slog.Logger) *slog.Logger {
	return slog.New(&handler{core: &core{root: l.Handler(), unlimited: true}, inner: l.Handler()})
}

// Limit changes the limit on lines that repeat themselves of l, a logger that Wrap returned, and of all loggers made
// from it: of one kind burst lines are written within a window, then one per window. 0 is the default: 20 and 10 s. A
// window that has begun ends as it was. For other loggers Limit does nothing.
func Limit(l *slog.Logger, burst int, window time.Duration) {
	if h, ok := l.Handler().(*handler); ok {
		h.core.mu.Lock()
		defer h.core.mu.Unlock()
		h.core.burst, h.core.window = max(burst, 0), max(window, 0)
	}
}

// Dropped returns how many lines of l, a logger that Wrap returned, are missing, because they did not fit or the handler
// returned an error. Lines that repeat themselves are not among them. For other loggers it is 0.
func Dropped(l *slog.Logger) uint64 {
	h, ok := l.Handler().(*handler)
	if !ok {
		return 0
	}
	h.core.mu.Lock()
	defer h.core.mu.Unlock()
	return h.core.lost
}

// Milliseconds returns a duration in milliseconds, with microseconds after the point, under the key and "_ms".
func Milliseconds(key string, d time.Duration) slog.Attr {
	return slog.Float64(key+"_ms", float64(d.Round(time.Microsecond))/float64(time.Millisecond))
}

const patience = time.Second

// Flush writes the lines that wait in l, a logger that Wrap returned, and the counts of suppressed lines. It waits for
// at most 1 s; the error tells how many lines are not written then. l can still be used. For other loggers Flush does
// nothing.
func Flush(l *slog.Logger) error {
	h, ok := l.Handler().(*handler)
	if !ok {
		return nil
	}
	h.core.report()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-h.core.written():
		return nil
	case <-timeout.C:
		return fmt.Errorf("logging: %d lines are not written: the log does not take them", h.core.waiting())
	}
}

// handler is for a logger of Wrap. Those that WithAttrs and WithGroup make share its core.
type handler struct {
	core  *core
	inner slog.Handler
}

// Unwrap returns the handler that gets the lines.
func (h *handler) Unwrap() slog.Handler { return h.inner }

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	frozen := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		frozen[i], _ = freeze(a)
	}
	return &handler{core: h.core, inner: h.inner.WithAttrs(frozen)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{core: h.core, inner: h.inner.WithGroup(name)}
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.core.unlimited || r.Level < slog.LevelInfo {
		h.core.put(h.line(ctx, &r))
		return nil
	}
	switch k, v := h.core.judge(&r, errorOf(&r)); v {
	case written:
		h.core.put(h.line(ctx, &r))
	case example:
		h.core.keep(k, h.line(ctx, &r))
	}
	return nil
}

type line struct {
	ctx   context.Context
	inner slog.Handler
	slog.Record
	size int
}

func (h *handler) line(ctx context.Context, r *slog.Record) line {
	l := line{
		ctx: context.WithoutCancel(ctx), inner: h.inner,
		Record: slog.NewRecord(r.Time, r.Level, r.Message, r.PC), size: lineSize + len(r.Message),
	}
	r.Attrs(func(a slog.Attr) bool {
		frozen, size := freeze(a)
		l.AddAttrs(frozen)
		l.size += size
		return true
	})
	return l
}
