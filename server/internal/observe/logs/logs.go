// Package logs makes the log of the server: JSON lines, or text for people.
package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
)

// Levels beyond slog's.
const (
	// All is for handlers below Control, which decides.
	All        = slog.Level(math.MinInt)
	levelTrace = slog.LevelDebug - 4
	levelNone  = slog.LevelError + 100
	// LevelFatal is the level of the line that says why the server cannot run.
	LevelFatal = slog.LevelError + 4
)

var levels = map[string]slog.Level{
	"trace": levelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
	"error": slog.LevelError, "fatal": LevelFatal, "none": levelNone,
}

// Levels returns the names that log.level may have, from the one with most lines on.
func Levels() []string {
	return slices.SortedFunc(maps.Keys(levels), func(a, b string) int { return int(levels[a] - levels[b]) })
}

// Level returns the level of a name that log.level may have, in any letter case.
func Level(name string) (slog.Level, error) {
	level, known := levels[strings.ToLower(name)]
	if !known {
		return 0, fmt.Errorf("log.level: %q is no level: %s are", name, strings.Join(Levels(), ", "))
	}
	return level, nil
}

type style uint8

const (
	inJSON style = iota
	inText
	inColour // text for a terminal that shows colours
)

// Colours tells whether coloured text may be written to f: it is a terminal, and the variable NO_COLOR is not set.
func Colours(f *os.File) bool {
	return runtime.GOOS != "windows" && IsTerminal(f) && os.Getenv("NO_COLOR") == ""
}

// New makes the logger that the configuration describes, wrapped by logging.Wrap: it never blocks, and limits lines that
// repeat. closeLog writes the lines that wait and closes the file. recent keeps warnings. An unknown level counts as
// info, with a warning.
func New(cfg *config.Log, recent *Recent) (log *slog.Logger, closeLog func() error, err error) {
	how, terminal := inJSON, IsTerminal(os.Stdout)
	var out io.Writer = os.Stderr
	if cfg.Format == "text" || cfg.Format != "json" && terminal && cfg.File == "" && runtime.GOOS != "windows" {
		how = inText
	}
	var to *file
	switch {
	case cfg.File != "":
		lost := slog.New(recent.Handler(To(os.Stderr, "info", false).Handler()))
		if to, err = openFile(cfg.File, lost); err != nil {
			return nil, nil, fmt.Errorf("log.file: %w", err)
		}
		out = to
	case how == inText && terminal:
		if out = os.Stdout; Colours(os.Stdout) {
			how = inColour
		}
	}
	log = logging.Wrap(slog.New(recent.Handler(styled(out, slog.LevelInfo, how).Handler())))
	control := Of(log)
	control.file = to
	control.Apply(log, cfg)
	return log, func() error {
		err := logging.Flush(log)
		if to != nil {
			err = errors.Join(err, to.Close())
		}
		return err
	}, nil
}

// To makes a logger of lines for w: coloured ones for a console, else JSON. An unknown level counts as info, with a
// warning.
func To(w io.Writer, name string, console bool) *slog.Logger {
	how := inJSON
	if console {
		how = inColour
	}
	level, known := levelOf(name)
	log := styled(w, level, how)
	if !known {
		log.Warn(unknownLevel, "log.level", name)
	}
	return log
}

const unknownLevel = "unknown log.level, using info"

func levelOf(name string) (level slog.Level, known bool) {
	if level, known = levels[strings.ToLower(name)]; !known {
		level = slog.LevelInfo
	}
	return level, known
}

func styled(w io.Writer, level slog.Level, how style) *slog.Logger {
	var h slog.Handler
	if how == inJSON {
		h = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: All, ReplaceAttr: logAttr})
	} else {
		h = newConsole(w, All, how == inColour)
	}
	return Controlled(h, level)
}

const millis = "2006-01-02T15:04:05.000Z07:00"

// logAttr gives the members of JSON lines the names that log collectors expect.
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
		if a.Value.Kind() == slog.KindTime {
			a.Value = slog.StringValue(a.Value.Time().Format(millis))
		}
	}
	return a
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l == LevelAccess:
		return "info"
	case l > slog.LevelError:
		return "fatal"
	}
	return strings.ToLower(l.String())
}

// ReportFatal writes to stderr why the server cannot run: plain text on a terminal, else a JSON line like the log.
func ReportFatal(err error) {
	if IsTerminal(os.Stderr) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return
	}
	To(os.Stderr, "fatal", false).Log(context.Background(), LevelFatal, "gyro cannot run", "error", err)
}

// IsTerminal tells whether f is a terminal: a character device other than the null device.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

type console struct {
	out *consoleOutput
	// rest writes all but time, level and message into out.line.
	rest slog.Handler
}

type consoleOutput struct {
	w      io.Writer
	colour bool // the time is without a date then: a terminal shows lines as they come
	mu     sync.Mutex
	line   bytes.Buffer
}

func newConsole(w io.Writer, level slog.Level, colours bool) slog.Handler {
	out := &consoleOutput{w: w, colour: colours}
	return &console{out: out, rest: slog.NewTextHandler(&out.line, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
				return slog.Attr{}
			}
			return a
		},
	})}
}

// Enabled implements slog.Handler.
func (c *console) Enabled(ctx context.Context, l slog.Level) bool { return c.rest.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (c *console) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &console{out: c.out, rest: c.rest.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (c *console) WithGroup(name string) slog.Handler {
	return &console{out: c.out, rest: c.rest.WithGroup(name)}
}

// Handle implements slog.Handler.
func (c *console) Handle(ctx context.Context, r slog.Record) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.line.Reset()
	if level := strings.ToUpper(levelName(r.Level)); c.out.colour {
		fmt.Fprintf(&c.out.line, "\x1b[90m%s\x1b[0m \x1b[%dm%-5s\x1b[0m %s ", r.Time.Format("15:04:05.000"), colour(r.Level), level, r.Message)
	} else {
		fmt.Fprintf(&c.out.line, "%s %-5s %s ", r.Time.Format(millis), level, r.Message)
	}
	if err := c.rest.Handle(ctx, r); err != nil {
		return err
	}
	_, err := c.out.w.Write(c.out.line.Bytes())
	return err
}

func colour(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 31 // red
	case l >= slog.LevelWarn:
		return 33 // yellow
	case l >= slog.LevelInfo:
		return 32 // green
	}
	return 36 // cyan
}
