package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/config"
)

// Levels beyond slog's.
const (
	levelTrace = slog.LevelDebug - 4
	levelFatal = slog.LevelError + 4
	levelNone  = slog.LevelError + 100
)

var levels = map[string]slog.Level{
	"trace": levelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
	"error": slog.LevelError, "fatal": levelFatal, "none": levelNone,
}

// NewLogger makes the logger that the configuration describes (config.md 3.2);
// close releases its file. An unknown level counts as info, with a warning.
func NewLogger(cfg *config.Log) (log *slog.Logger, closeLog func() error, err error) {
	level, known := levels[strings.ToLower(cfg.Level)]
	if !known {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: logAttr}
	var h slog.Handler
	closeLog = func() error { return nil }
	switch {
	case cfg.File != "":
		f, err := os.OpenFile(cfg.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("log.file: %w", err)
		}
		closeLog = f.Close
		h = slog.NewJSONHandler(f, opts)
	case isTerminal(os.Stdout):
		h = newConsole(os.Stdout, level)
	default:
		h = slog.NewJSONHandler(os.Stderr, opts)
	}
	log = slog.New(h)
	if !known {
		log.Warn("unknown log.level, using info", "level", cfg.Level)
	}
	return log, closeLog, nil
}

// logAttr gives the members of JSON lines the names that log collectors know
// from the reference.
func logAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		if l, ok := a.Value.Any().(slog.Level); ok {
			a.Value = slog.StringValue(levelName(l))
		}
	case slog.TimeKey:
		a.Value = slog.StringValue(a.Value.Time().Format(time.RFC3339))
	}
	return a
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l > slog.LevelError:
		return "fatal"
	}
	return strings.ToLower(l.String())
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// newConsole writes lines for people.
func newConsole(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			a.Value = slog.StringValue(a.Value.Time().Format(time.TimeOnly))
		}
		return a
	}})
}
