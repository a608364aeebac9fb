package dev

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// advices tell a user of `gyro dev` how to act on a line with this text. The first match is shown.
var advices = []struct{ text, advice string }{
	{"client.allowed_origins", "pages on this machine may connect; gyro dev --origin ORIGIN allows those of ORIGIN too"},
	{"http_api.key", "the key is printed at the start; gyro dev --api-key KEY keeps it the same at every start"},
	{"allow_anonymous_connect_without_token", "clients send the token that is printed at the start, or one that you sign with the HMAC secret"},
	{"allow_", ownConfiguration},
	{"channel.namespaces", ownConfiguration},
	{"hmac_secret_key", secretAdvice},
	{"signature does not verify", secretAdvice},
}

const secretAdvice = "sign tokens with the HMAC secret that is printed at the start; gyro dev --secret SECRET keeps it the same at every start"

const ownConfiguration = "gyro dev -c config.json has the namespaces and options of a configuration of your own; gyro genconfig makes one to begin with"

// handler writes the message, each attribute on a line of its own, and advice.
type handler struct {
	out    *output
	level  slog.Leveler
	colour bool
	attrs  []slog.Attr
	group  string // prefix of the names of attributes
}

type output struct {
	mu sync.Mutex
	w  io.Writer
}

// NewHandler returns a handler of log records that writes to a terminal.
func NewHandler(w io.Writer, level slog.Leveler, colour bool) slog.Handler {
	return &handler{out: &output{w: w}, level: level, colour: colour}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = h.attrs[:len(h.attrs):len(h.attrs)]
	for _, a := range attrs {
		with.attrs = append(with.attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.group += name + "."
	return &with
}

// margin is the width of time and level.
const margin = "                    "

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	attrs := h.attrs[:len(h.attrs):len(h.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
		return true
	})
	width := 0
	for _, a := range attrs {
		width = max(width, len(a.Key))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s\n", h.paint("90", r.Time.Format("15:04:05.000")), h.paint(levelColour(r.Level), fmt.Sprintf("%-6s", r.Level)), h.paint("1", clean(r.Message)))
	for _, a := range attrs {
		fmt.Fprintf(&b, "%s%s  %s\n", margin, h.paint("90", fmt.Sprintf("%-*s", width, clean(a.Key))), clean(a.Value.Resolve().String()))
	}
	for _, a := range advices {
		if bytes.Contains(b.Bytes(), []byte(a.text)) {
			fmt.Fprintf(&b, "%s%s\n", margin, h.paint("36", "→ "+a.advice))
			break
		}
	}
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(b.Bytes())
	return err
}

func (h *handler) paint(code, text string) string {
	if !h.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func levelColour(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "31" // red
	case l >= slog.LevelWarn:
		return "33" // yellow
	}
	return "32" // green
}

// clean quotes control characters: texts of clients must not control the terminal.
func clean(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
