package app

import (
	"io"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

// TestStuckLog: where nobody reads the log, clients whose tokens are refused hold up
// nobody.
func TestStuckLog(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe() // nobody reads
	s := &testServer{t: t, logs: new(logBuffer), cfg: testConfig(func(cfg *config.Config) {
		cfg.Channel.WithoutNamespace.AllowSubscribeForClient = true
	})}
	s.app = must(New(s.cfg, Options{Logger: logs.To(writer, "info", false)}))
	if err := s.app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	t.Cleanup(func() { reader.Close() })
	for range 4 {
		bad := s.dial(nil)
		bad.Send(`{"id":1,"connect":{"token":"a.b.c"}}`)
		if d := bad.Disconnected(); d.Code != protocol.DisconnectInvalidToken.Code {
			t.Errorf("a bad token: %+v", d)
		}
		refused := s.connect("attacker")
		for range 100 {
			refused.Call(`"subscribe":{"channel":"$a","token":"a.b.c"}`)
		}
		s.connect("victim").Subscribe("news", "")
	}
}

// TestRepeatedRefusals: refusals in a row are few lines, which count them all.
func TestRepeatedRefusals(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", nil)
	const tries = 500
	c := s.connect("u")
	for range tries {
		c.Call(`"subscribe":{"channel":"$a","token":"a.b.c"}`)
	}
	s.stop()
	if n := strings.Count(s.logs.String(), "subscribe refused"); n == 0 || n > 30 {
		t.Errorf("%d lines for %d refusals:\n%s", n, tries, s.logs)
	}
	if !strings.Contains(s.logs.String(), `"suppressed":`) {
		t.Errorf("the log does not count what it leaves out:\n%s", s.logs)
	}
}
