package top

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/gyrohq/gyro/server/cli"
)

// step hands a message to a model.
func step(t *testing.T, m model, msg tea.Msg) model {
	t.Helper()
	next, _ := m.Update(msg)
	return next.(model)
}

func key(text string) tea.KeyMsg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text)} }

func TestView(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := cli.Node{UID: "1", Name: "a", Version: "v1", NumClients: 10, NumUsers: 5, NumSubs: 20, NumChannels: 7, Uptime: 61}
	b := cli.Node{UID: "2", Name: "b\x1b[31m", Version: "v1", NumClients: 30, Uptime: 5}
	m := step(t, model{width: 200}, sample{at: at, nodes: []cli.Node{a, b}, metrics: map[string]float64{"gyro_transport_messages_sent": 100}})
	a.NumClients, a.NumSubs = 13, 19
	m = step(t, m, sample{at: at.Add(2 * time.Second), nodes: []cli.Node{a, b}, metrics: map[string]float64{"gyro_transport_messages_sent": 150}})
	want := `gyro top   03:04:07   nodes 2   clients 43   subscriptions 19

NODE*   CLIENTS  USERS  SUBS     CHANNELS  UPTIME  VERSION
a       13 (+3)  5      19 (-1)  7         1m1s    v1
b�[31m  30       0      0        0         5s      v1

PER SECOND, OF THE NODE WITH THE METRICS
messages to clients  25.0

q quit   p pause   sort by: n node  c clients  u users  s subscriptions  h channels`
	if got := m.View(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m = step(t, m, key("c"))
	if got := m.View(); strings.Index(got, "\nb") > strings.Index(got, "\na") || !strings.Contains(got, "CLIENTS*") {
		t.Errorf("not sorted by clients:\n%s", got)
	}
	m = step(t, step(t, m, key("p")), sample{at: at.Add(time.Hour)})
	if got := m.View(); !strings.Contains(got, "paused") || !strings.Contains(got, "nodes 2") {
		t.Errorf("not paused:\n%s", got)
	}
	m = step(t, step(t, m, sample{err: errors.New("no answer")}), tea.WindowSizeMsg{Width: 20, Height: 2})
	if got := m.View(); got != "gyro top   03:04:07 \nthe server does not " {
		t.Errorf("%q", got)
	}
	if _, cmd := m.Update(key("q")); cmd == nil {
		t.Error("q does not end the view")
	} else if _, quit := cmd().(tea.QuitMsg); !quit {
		t.Error("q does not end the view")
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

func TestLook(t *testing.T) {
	m := model{ctx: t.Context(), source: Source{Interval: time.Second, Nodes: func(context.Context) ([]cli.Node, error) { return []cli.Node{{Name: "a"}}, nil }}}
	if s, ok := m.Init()().(sample); !ok || s.err != nil || len(s.nodes) != 1 || s.metrics != nil {
		t.Errorf("%+v", s)
	}
}
