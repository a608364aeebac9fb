package connections

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// eventSource is what a browser's EventSource knows between two connections.
type eventSource struct {
	url  string
	last string // the id of the last event
	seen map[string][]string
}

// read opens a stream and dispatches its events, until done says so, ctx ends, or limit bytes were read.
func (e *eventSource) read(ctx context.Context, t *testing.T, limit int64, done func() bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	nodetest.Must(t, err)
	if e.last != "" {
		req.Header.Set("Last-Event-ID", e.last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // cut before the answer
	}
	defer resp.Body.Close()
	data, id := "", e.last
	for r := bufio.NewReader(io.LimitReader(resp.Body, limit)); !done(); {
		line, err := r.ReadString('\n')
		if err != nil {
			return // an event without its end is dropped
		}
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
		case "":
			if e.last = id; data != "" {
				note(t, data, e.seen)
			}
			data = ""
		case "data":
			data = value
		case "id":
			id = value
		}
	}
}

// TestEventSource: a client that does what a browser does gets everything once and in order, wherever the
// connection is cut.
func TestEventSource(t *testing.T) {
	for _, channels := range [][]string{{"a"}, {"a", "b c", "d"}} {
		r := rand.New(rand.NewPCG(1, uint64(len(channels))))
		node := nodetest.Run(t, gyro.Config{Handlers: nodetest.Granted(channels...)})
		s := nodetest.StreamServer(t, node, httpstream.UniSSE, httpstream.Config{RetryMin: time.Second, RetryMax: 2 * time.Second}, false)
		e, sent := &eventSource{url: s.URL, seen: make(map[string][]string)}, make(map[string]int)
		publishSome := func() {
			for range r.IntN(40) {
				ch := channels[r.IntN(len(channels))]
				sent[ch]++
				nodetest.Publish(t, node, ch, fmt.Sprint(sent[ch]), nodetest.Keep(5000, time.Hour))
			}
		}
		e.read(t.Context(), t, 1<<20, func() bool { return e.last != "" })
		for range 60 {
			publishSome()
			limit := 300 + r.Int64N(2000)
			ctx, cut := context.WithCancel(t.Context())
			go func() { publishSome(); cut() }()
			e.read(ctx, t, limit, func() bool { return false })
			<-ctx.Done()
		}
		e.read(t.Context(), t, 1<<30, func() bool {
			for _, ch := range channels {
				if len(e.seen[ch]) < sent[ch] {
					return false
				}
			}
			return true
		})
		for _, ch := range channels {
			for i, data := range e.seen[ch] {
				if data != fmt.Sprint(i+1) {
					t.Fatalf("%s: %s at %d of %v", ch, data, i, e.seen[ch])
				}
			}
		}
	}
}
