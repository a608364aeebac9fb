// Package logging keeps a log from holding up the program that writes it, and from
// filling the disk. A logger that Wrap returns never waits for its handler: lines go
// through a queue with a bound, and one goroutine writes them while there are any. It
// also limits lines that repeat themselves. What is left out is counted, and the log
// says how many lines that were.
package logging

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Wrap returns a logger that hands its lines to the handler of l, in their order, and
// never blocks. A nil l is slog.Default(); a logger that Wrap made is returned as it
// is.
//
// Lines of one kind, which are those of the same level and message, are limited: 20
// within ten seconds are written, then one every ten seconds, whose attribute
// "suppressed" tells how many others there were. A line with an error that the kind
// did not show yet is written all the same, for up to 8 different errors. Levels below
// info are not limited.
//
// Up to 8,192 lines and 4 MiB wait for the handler, half of that below the level error.
// What does not fit is dropped; a line with the number of dropped ones follows.
//
// Attributes are evaluated during the call, whatever the handler does with them
// later: errors, slog.LogValuers and all that is no plain value are replaced by what
// they say then. The handler gets a context with the values of the caller's, and
// without its end. Enabled is asked at each call and must not block.
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

// patience is how long Flush waits.
const patience = time.Second

// Flush writes what l, a logger that Wrap returned, holds back: the lines that wait, and
// the counts of suppressed ones. It is for the end of the program. It waits for 1 s at
// the most; the error tells how many lines are not written then. The logger can still
// be used. For other loggers Flush does nothing.
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

// handler is what a logger of Wrap hands its records to. Those that WithAttrs and
// WithGroup make share a core.
type handler struct {
	core  *core
	inner slog.Handler
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	frozen := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		frozen[i], _ = freeze(a)
	}
	return &handler{core: h.core, inner: h.inner.WithAttrs(frozen)}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{core: h.core, inner: h.inner.WithGroup(name)}
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
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

// line is a record on its way to its handler.
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
