//go:build unix

package main

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// screen is what a terminal got.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) has(pattern *regexp.Regexp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pattern.Match(s.text.Bytes())
}

// TestTop: the view shows the node on a terminal, of which it asks nothing, and q ends it.
func TestTop(t *testing.T) {
	t.Parallel()
	dir, _ := clientServer(t)
	cmd := command(t, dir, []string{"TERM=xterm"}, "top", "-c", "config.json", "--interval", "50ms")
	shown, terminal, end := onTerminal(t, cmd)
	wait.Until(t, "the node on the screen", func() bool { return shown.has(regexp.MustCompile(`nodes 1 .*clients 0`)) })
	if _, err := terminal.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if q := question.FindString(end()); q != "" {
		t.Errorf("the terminal is asked %q", q)
	}
	out, code := run(t, dir, nil, "top", "-c", "config.json")
	if code != 1 || out != "" {
		t.Errorf("without a terminal: %d %s", code, out)
	}
	watch := follow(t, dir, "top", "-c", "config.json", "--json", "--interval", "1ms")
	for range 2 {
		if got := line(t, watch.out); !strings.Contains(got, `"num_clients":0`) {
			t.Error(got)
		}
	}
}
