package stand

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/wire"
)

// watch asks a node for its health ten times a second.
type watch struct {
	addr   string
	client http.Client

	mu    sync.Mutex
	state Health
	now   string
}

// Health has the answers of a node in a span of time.
type Health struct {
	// Unfit is set if it answered 503. Reason is the first such answer.
	Unfit  bool
	Reason string
	// Hung counts requests without an answer within 2 s.
	Hung int
}

const fit = ""

func newWatch(addr string) *watch {
	return &watch{addr: addr, client: http.Client{Timeout: 2 * time.Second}, now: "not asked yet"}
}

func (w *watch) work(ctx context.Context) {
	for ; ctx.Err() == nil; wire.Sleep(ctx, 100*time.Millisecond) {
		w.ask(ctx)
	}
	w.client.CloseIdleConnections()
}

func (w *watch) ask(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.addr+"/health", nil)
	if err != nil {
		panic(err) // the address comes from a listener
	}
	resp, err := w.client.Do(req)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.now = err.Error()
		if os.IsTimeout(err) && ctx.Err() == nil {
			w.state.Hung++
		}
		return
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	switch {
	case err != nil:
		w.now = err.Error()
	case resp.StatusCode == http.StatusOK:
		w.now = fit
	default:
		w.now = fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body)))
		if !w.state.Unfit {
			w.state.Unfit, w.state.Reason = true, w.now
		}
	}
}

func (w *watch) begin() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.state
	w.state = Health{}
	return was
}

func (w *watch) says() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}
