package top

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

// text is the view of a model.
func text(m *model) string { return strings.Join(m.view(), "\n") }

func TestView(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := cli.Node{UID: "1", Name: "a", Version: "v1", NumClients: 10, NumUsers: 5, NumSubs: 20, NumChannels: 7, Uptime: 61}
	b := cli.Node{UID: "2", Name: "b\x1b[31m", Version: "v1", NumClients: 30, Uptime: 5}
	m := &model{width: 200}
	m.take(sample{at: at, nodes: []cli.Node{a, b}, metrics: map[string]float64{"gyro_transport_messages_sent": 100}})
	a.NumClients, a.NumSubs = 13, 19
	m.take(sample{at: at.Add(2 * time.Second), nodes: []cli.Node{a, b}, metrics: map[string]float64{"gyro_transport_messages_sent": 150}})
	want := `gyro top   03:04:07   nodes 2   clients 43   subscriptions 19

NODE*   CLIENTS  USERS  SUBS     CHANNELS  UPTIME  VERSION
a       13 (+3)  5      19 (-1)  7         1m1s    v1
b�[31m  30       0      0        0         5s      v1

PER SECOND, OF THE NODE WITH THE METRICS
messages to clients  25.0

q quit   p pause   sort by: n node  c clients  u users  s subscriptions  h channels`
	if got := text(m); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m.press("c")
	if got := text(m); strings.Index(got, "\nb") > strings.Index(got, "\na") || !strings.Contains(got, "CLIENTS*") {
		t.Errorf("not sorted by clients:\n%s", got)
	}
	m.press("p")
	m.take(sample{at: at.Add(time.Hour)})
	if got := text(m); !strings.Contains(got, "paused") || !strings.Contains(got, "nodes 2") {
		t.Errorf("not paused:\n%s", got)
	}
	m.take(sample{err: errors.New("no answer")})
	m.width, m.height = 20, 2
	if got := text(m); got != "gyro top   03:04:07 \nthe server does not " {
		t.Errorf("%q", got)
	}
	for key, end := range map[string]bool{"q": true, "\x1b": true, "\x03": true, "x": false, "\x1b[A": false} {
		if m.press(key) != end {
			t.Errorf("key %q ends the view: %v", key, !end)
		}
	}
}

func TestScrape(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("# HELP a b\n# TYPE a counter\na{x=\"} 7\"} 1\na{x=\"y z\"} 2.5 1700000000\nb 4e2\n\nodd\nc NaNs\n"))
	}))
	defer s.Close()
	got, err := Scrape(http.DefaultClient, s.URL+"/metrics")(t.Context())
	if err != nil || got["a"] != 3.5 || got["b"] != 400 || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	if _, err := Scrape(http.DefaultClient, s.URL)(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}

// TestRun: samples are drawn as they come, and keys, their end and the context end the view.
func TestRun(t *testing.T) {
	s := Source{Interval: time.Hour, Nodes: func(context.Context) ([]cli.Node, error) { return []cli.Node{{Name: "a"}}, nil }}
	keys, drawn := make(chan string), make(chan string)
	over := make(chan error, 1)
	view := func(ctx context.Context) {
		go func() {
			over <- run(ctx, s, keys, func(m *model) error { drawn <- text(m); return nil })
		}()
		if first := <-drawn; !strings.Contains(first, "nodes 0") {
			t.Errorf("at first:\n%s", first)
		}
		if second := <-drawn; !strings.Contains(second, "nodes 1") {
			t.Errorf("with a sample:\n%s", second)
		}
	}
	view(t.Context())
	keys <- "p"
	if paused := <-drawn; !strings.Contains(paused, "paused") {
		t.Errorf("paused:\n%s", paused)
	}
	keys <- "q"
	if err := <-over; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	view(ctx)
	cancel(errors.New("a signal"))
	if err := <-over; err == nil || err.Error() != "a signal" {
		t.Errorf("%v", err)
	}
	view(t.Context())
	close(keys)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), s, keys, func(*model) error { return errors.New("gone") }); err == nil || err.Error() != "gone" {
		t.Errorf("%v", err)
	}
}

// TestStrokes: what a terminal sends, as keys.
func TestStrokes(t *testing.T) {
	for sent, want := range map[string][]string{
		"q": {"q"}, "pc": {"p", "c"}, "\x1b": {"\x1b"}, "\x1b[A": nil, "\x1bOP": nil, "\x03": {"\x03"}, "é": {"é"}, "c\x1b[A": {"c"},
	} {
		if got := strokes(sent); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}
