package dev

import (
	"log/slog"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := slog.New(NewHandler(&out, slog.LevelInfo, false)).With("node", "n")
	log.Debug("not this")
	log.Info("connection refused: its origin is not allowed", "origin", "http://evil\x1b[2J", "key", "client.allowed_origins")
	log.Info("no token", "key", "client.allow_anonymous_connect_without_token")
	log.WithGroup("g").Warn("other", "key", "the API key of http_api.key\u202e")
	_, first, _ := strings.Cut(out.String(), " ")
	first, second, _ := strings.Cut(first, "\n"+out.String()[:2]) // the hour
	const want = `INFO   connection refused: its origin is not allowed
                    node    n
                    origin  "http://evil\x1b[2J"
                    key     client.allowed_origins
                    → pages on this machine may connect; gyro dev --origin ORIGIN allows those of ORIGIN too`
	if first != want {
		t.Errorf("got\n%s", first)
	}
	for _, want := range []string{"INFO   no token\n", "→ clients send the token", "WARN   other\n", ` g.key  "the API key of http_api.key\u202e"`, "--api-key KEY"} {
		if !strings.Contains(second, want) {
			t.Errorf("%q is not in\n%s", want, second)
		}
	}
	if strings.Contains(out.String(), "not this") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("got\n%q", out.String())
	}
	out.Reset()
	slog.New(NewHandler(&out, slog.LevelInfo, true)).Error("red")
	if !strings.Contains(out.String(), "\x1b[31mERROR \x1b[0m \x1b[1mred\x1b[0m\n") {
		t.Errorf("got %q", out.String())
	}
}
