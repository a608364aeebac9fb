package operators

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/protocol"
)

// snapshotNode is a Node that calls a function, which returns the first error of the expression, too.
type snapshotNode func(ctx context.Context, f inspect.Filter, see func(inspect.Page) error) (string, error)

func (n snapshotNode) Snapshot(ctx context.Context, f inspect.Filter) iter.Seq2[inspect.Page, error] {
	return func(yield func(inspect.Page, error) bool) {
		over := errors.New("the loop has ended")
		failed, err := n(ctx, f, func(p inspect.Page) error {
			if !yield(p, nil) {
				return over
			}
			return nil
		})
		if failed != "" && !errors.Is(err, over) && !yield(inspect.Page{Node: "n2", Failed: failed}, nil) {
			return
		}
		if err != nil && !errors.Is(err, over) {
			yield(inspect.Page{}, err)
		}
	}
}

func postSnapshot(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	return w
}

func serveSnapshot(n snapshotNode, body string) *httptest.ResponseRecorder {
	return postSnapshot(NewSnapshots(context.Background(), n, slog.New(slog.DiscardHandler)), body)
}

func snapshotPage(uid string, clients ...string) inspect.Page {
	p := inspect.Page{Node: uid, Name: "name of " + uid}
	for _, c := range clients {
		p.Connections = append(p.Connections, inspect.Connection{
			Client: c, User: "ann", Node: uid, Latency: -1, ConnectedAt: time.UnixMilli(5), Meta: []byte(`{"a":1}`),
			Channels: map[string]inspect.Subscription{"news": {Source: 6}},
		})
	}
	return p
}

func TestLines(t *testing.T) {
	w := serveSnapshot(func(_ context.Context, f inspect.Filter, see func(inspect.Page) error) (string, error) {
		if f.User != "ann" || f.Expression != "queue > 0" || f.Labels == nil || f.Labels.Key != "plan" || f.Limit != 0 {
			t.Errorf("filter %+v", f)
		}
		for _, p := range []inspect.Page{snapshotPage("n1", "c1"), snapshotPage("n2"), snapshotPage("n2", "c2", "c3")} {
			if err := see(p); err != nil {
				return "", err
			}
		}
		return "no such key", fmt.Errorf("%w to the end: n3", gyro.ErrNoAnswer)
	}, `{"user":"ann","expression":"queue > 0","label_filter":{"key":"plan","cmp":"eq","val":"x"}}`)
	lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
	const first = `{"client":"c1","node_name":"name of n1","app_name":"","app_version":"","transport":"","protocol":"","user":"ann",` +
		`"state":{"channels":{"news":{"source":6}},"meta":{"a":1}},"connected_at_ms":5,"ping_pong_latency_ms":-1,"node":"n1","queue":0,"commands":0}`
	const last = `{"summary":{"connections":3,"nodes":{"n1":1,"n2":2},"incomplete":"no answer to the end: n3","failed":"no such key"}}`
	if len(lines) != 4 || lines[0] != first || lines[3] != last || w.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%d, %d lines:\n%s\nwant\n%s\n%s", w.Code, len(lines), w.Body, first, last)
	}
	broken := snapshotPage("n", "c")
	broken.Connections[0].Meta = []byte("{")
	w = serveSnapshot(func(_ context.Context, _ inspect.Filter, see func(inspect.Page) error) (string, error) {
		return "", see(broken)
	}, "")
	if !strings.HasPrefix(w.Body.String(), `{"client":"c"`) || strings.Contains(w.Body.String(), "meta") || !strings.Contains(w.Body.String(), `"summary"`) {
		t.Errorf("with meta that is not JSON: %s", w.Body)
	}
}

func TestRefusals(t *testing.T) {
	fails := func(err error) snapshotNode {
		return func(context.Context, inspect.Filter, func(inspect.Page) error) (string, error) { return "", err }
	}
	for body, c := range map[string]struct {
		n    snapshotNode
		code int
		want string
	}{
		`[`:                        {fails(nil), 400, "not the JSON object"},
		`{"limit":5}`:              {fails(nil), 400, "limit: a snapshot has none"},
		strings.Repeat(" ", 1<<17): {fails(nil), 400, "too large"},
		`{"expression":"x"}`:       {fails(fmt.Errorf(`%w: %w "x": wrong`, protocol.ErrorBadRequest, inspect.ErrExpression)), 400, `Bad Request: expression "x": wrong`},
		`{}`:                       {fails(errors.New("gyro: no room")), 503, "Service Unavailable: no room"},
		`{"user":"nobody"}`:        {fails(nil), 200, `{"summary":{"connections":0,"nodes":{}}}`},
	} {
		if w := serveSnapshot(c.n, body); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%.40s: %d %s, want %d %s", body, w.Code, w.Body, c.code, c.want)
		}
	}
	w := httptest.NewRecorder()
	NewSnapshots(context.Background(), fails(nil), slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
	w = serveSnapshot(func(_ context.Context, _ inspect.Filter, see func(inspect.Page) error) (string, error) {
		return "", errors.Join(see(snapshotPage("n", "c")), errors.New("the reader has gone"))
	}, "")
	if strings.Contains(w.Body.String(), "summary") {
		t.Errorf("an answer that was cut off has a summary: %s", w.Body)
	}
}

// TestRoom: few snapshots at a time, and none after the server has stopped.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped, stop := context.WithCancel(t.Context())
		h := NewSnapshots(stopped, snapshotNode(func(ctx context.Context, _ inspect.Filter, see func(inspect.Page) error) (string, error) {
			for i := 0; ctx.Err() == nil; i++ { // pages without connections
				if err := see(snapshotPage("n")); err != nil {
					return "", err
				}
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
				}
			}
			return "", ctx.Err()
		}), slog.New(slog.DiscardHandler))
		answers := make(chan *httptest.ResponseRecorder, maxSnapshots)
		for range maxSnapshots {
			go func() { answers <- postSnapshot(h, "") }()
		}
		time.Sleep(time.Minute)
		if w := postSnapshot(h, ""); w.Code != http.StatusTooManyRequests {
			t.Errorf("one more: %d", w.Code)
		}
		stop()
		for range maxSnapshots {
			if w := <-answers; w.Code != 200 || strings.Trim(w.Body.String(), "\n") != "" || w.Body.Len() < 5 {
				t.Errorf("%d %q", w.Code, w.Body)
			}
		}
	})
}
