package operators

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/observe"
)

// tapNode is a Node that does what a function says.
type tapNode func(ctx context.Context, of observe.Tap, see func([]observe.Tapped) error) error

func (n tapNode) Tap(ctx context.Context, of observe.Tap) iter.Seq2[[]observe.Tapped, error] {
	return func(yield func([]observe.Tapped, error) bool) {
		over := errors.New("the loop has ended")
		err := n(ctx, of, func(events []observe.Tapped) error {
			if !yield(events, nil) {
				return over
			}
			return nil
		})
		if err != nil && !errors.Is(err, over) {
			yield(nil, err)
		}
	}
}

func serveTap(n tapNode, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	NewTaps(n, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	return w
}

// TestBound: a tap ends when its time is over, and an idle one writes empty lines meanwhile.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		w := serveTap(func(ctx context.Context, of observe.Tap, see func([]observe.Tapped) error) error {
			for ctx.Err() == nil {
				if err := see(nil); err != nil {
					return err
				}
				time.Sleep(250 * time.Millisecond)
			}
			return ctx.Err()
		}, `{"type":"user","entity":"","duration":60}`)
		if took := time.Since(begin); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it took %v", took)
		}
		lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
		var first, last observe.Tapped
		if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[len(lines)-1]), &last)); err != nil {
			t.Fatal(err)
		}
		if first.Event != "started" || last.Event != "ended" || last.Reason != "its time is over" || len(lines) < 6 || len(lines) > 9 {
			t.Errorf("%q", lines)
		}
	})
}

// TestRefused: what the node refuses is an answer of status 503 with the reason.
func TestRefused(t *testing.T) {
	w := serveTap(func(context.Context, observe.Tap, func([]observe.Tapped) error) error {
		return errors.New("gyro: there are too many")
	}, `{"type":"channel","entity":"a"}`)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "Service Unavailable: there are too many") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	NewTaps(nil, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("%d", w.Code)
	}
}

// TestClosed: the reader of a tap that ends by itself is told why.
func TestClosed(t *testing.T) {
	h := NewTaps(tapNode(func(ctx context.Context, _ observe.Tap, see func([]observe.Tapped) error) error {
		if err := see([]observe.Tapped{{Event: observe.TapReceived}}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}), slog.New(slog.DiscardHandler))
	h.Close()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"type":"channel","entity":"a"}`)))
	if got := w.Body.String(); !strings.Contains(got, `"event":"received"`) || !strings.Contains(got, `"reason":"the server stops"`) {
		t.Errorf("%s", got)
	}
}
