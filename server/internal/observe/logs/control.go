package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
)

// LevelAccess is the level of the access log if log.access is set. Its lines are not limited, and look like info.
const LevelAccess = slog.LevelInfo - 1

// MaxTemporary is the longest duration of a level other than the configured one.
const MaxTemporary = 24 * time.Hour

// Control changes the level of a log, and the share of its access log. Any goroutine may call its methods.
type Control struct {
	level    atomic.Int64
	access   atomic.Int64 // each how manyth line of the access log is written; 0: none
	requests atomic.Uint64
	refusals Refusals
	file     *file // nil: the log goes elsewhere

	mu         sync.Mutex
	configured slog.Level
	revert     *time.Timer // nil: the level is the configured one
	until      time.Time
}

func newControl(level slog.Level) *Control {
	c := &Control{configured: level}
	c.level.Store(int64(level))
	return c
}

// Controlled returns a logger over a handler, from a level on.
func Controlled(h slog.Handler, level slog.Level) *slog.Logger {
	return slog.New(&filter{h, newControl(level)})
}

// Of returns the control of a logger; nil if it is none of this package.
func Of(log *slog.Logger) *Control {
	h := log.Handler()
	for {
		switch own := h.(type) {
		case *filter:
			return own.control
		case interface{ Unwrap() slog.Handler }:
			h = own.Unwrap()
		default:
			return nil
		}
	}
}

// Apply takes over a section log. A level that was set for a time goes on. An unknown level counts as info, with a
// warning.
func (c *Control) Apply(log *slog.Logger, cfg *config.Log) {
	if c == nil {
		return
	}
	level, known := levelOf(cfg.Level)
	every := int64(0)
	if cfg.Access {
		every = max(int64(cfg.AccessSample), 1)
	}
	c.access.Store(every)
	logging.Limit(log, cfg.LimitBurst, cfg.LimitWindow)
	c.configure(level)
	if !known {
		log.Warn(unknownLevel, "log.level", cfg.Level)
	}
}

func (c *Control) configure(level slog.Level) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.configured = level; c.revert == nil {
		c.level.Store(int64(level))
	}
}

// State is the level in force and the configured one.
type State struct {
	// If Level and Configured differ, Level ends at Until.
	Level      string     `json:"level"`
	Configured string     `json:"configured"`
	Until      *time.Time `json:"until,omitempty"`
}

// State returns the level in force and the configured one.
func (c *Control) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Level: nameOf(slog.Level(c.level.Load())), Configured: nameOf(c.configured)}
	if c.revert != nil {
		until := c.until
		s.Until = &until
	}
	return s
}

// SetLevel sets a level by name for a time. An empty name restores the configured level at once.
func (c *Control) SetLevel(name string, d time.Duration) error {
	var level slog.Level
	if name != "" {
		var err error
		if level, err = Level(name); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "log.level: "))
		}
		if d <= 0 || d > MaxTemporary {
			return fmt.Errorf("a level of the log is set for 1 to %d seconds: log.level is for ever", int(MaxTemporary/time.Second))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revert != nil {
		c.revert.Stop()
		c.revert = nil
	}
	if name == "" {
		c.level.Store(int64(c.configured))
		return nil
	}
	c.level.Store(int64(level))
	c.until = time.Now().Add(d)
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.revert == timer {
			c.revert = nil
			c.level.Store(int64(c.configured))
		}
	})
	c.revert = timer
	return nil
}

// Close ends a level that was set for a time.
func (c *Control) Close() {
	if c != nil {
		_ = c.SetLevel("", 0) // which cannot fail
	}
}

// Reopen opens log.file anew, and reports whether there is one: programs rename it, and send SIGUSR1.
func (c *Control) Reopen() (bool, error) {
	if c == nil || c.file == nil {
		return false, nil
	}
	return true, c.file.Reopen()
}

// Refusals returns the counts of refusals.
func (c *Control) Refusals() *Refusals { return &c.refusals }

func nameOf(l slog.Level) string {
	if l >= levelNone {
		return "none"
	}
	return levelName(l)
}

type filter struct {
	slog.Handler
	control *Control
}

// Enabled implements slog.Handler.
func (f *filter) Enabled(ctx context.Context, l slog.Level) bool {
	in := int64(l) >= f.control.level.Load() || l == LevelAccess && f.control.access.Load() > 0
	return in && f.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (f *filter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &filter{f.Handler.WithAttrs(attrs), f.control}
}

// WithGroup implements slog.Handler.
func (f *filter) WithGroup(name string) slog.Handler {
	return &filter{f.Handler.WithGroup(name), f.control}
}

// CountRefusal implements refusal.Counter.
func (f *filter) CountRefusal(r *refusal.Refusal) { f.control.refusals.add(r, time.Now()) }
