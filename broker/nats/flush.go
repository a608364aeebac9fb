package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/protocol"
)

// flusher finds out that the server has processed what was sent: it sends a ping, which the server answers in its turn.
// One ping is under way at a time; calls that come meanwhile share the next one.
type flusher struct {
	conn    func() *natsio.Conn
	timeout time.Duration

	mu     sync.Mutex
	busy   bool
	next   *roundTrip // not sent yet; nil if no call waits
	number uint64
	// denied has the refused subjects, with the number of the last ping before the refusal. The NATS client reports
	// refusals in a goroutine of its own.
	denied   map[string]uint64
	any      atomic.Bool // denied is not empty
	reported error
	news     chan struct{} // closed at each report
}

type roundTrip struct {
	done chan struct{}
	err  error
}

// maxDenied bounds denied. One ping has much fewer refusals before it.
const maxDenied = 4096

func newFlusher(timeout time.Duration, conn func() *natsio.Conn) *flusher {
	return &flusher{conn: conn, timeout: timeout, denied: make(map[string]uint64), news: make(chan struct{})}
}

// begin returns since for denies, for messages from now on.
func (f *flusher) begin() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.number
}

func (f *flusher) flush(ctx context.Context) error {
	f.mu.Lock()
	if !f.busy {
		f.busy = true
		f.number++
		f.mu.Unlock()
		err := f.ping(ctx)
		if f.more() {
			go f.run()
		}
		return err
	}
	t := f.next
	if t == nil {
		t = &roundTrip{done: make(chan struct{})}
		f.next = t
	}
	f.mu.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// more tells whether a call waits for another ping. If not, the next flush sends one itself.
func (f *flusher) more() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = f.next != nil
	return f.busy
}

func (f *flusher) run() {
	for {
		f.mu.Lock()
		t := f.next
		f.next = nil
		f.number++
		f.mu.Unlock()
		t.err = f.ping(context.Background())
		close(t.done)
		if !f.more() {
			return
		}
	}
}

func (f *flusher) ping(ctx context.Context) error {
	conn := f.conn()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("nats: no answer: %w", err)
	}
	f.awaitReports(conn)
	return nil
}

// patience bounds the wait for the report of an error that the NATS client has.
const patience = 200 * time.Millisecond

// awaitReports waits until the client's refusals are in denied: another goroutine reports them.
func (f *flusher) awaitReports(conn *natsio.Conn) {
	var timeout <-chan time.Time
	for {
		f.mu.Lock()
		reported, news := f.reported, f.news
		f.mu.Unlock()
		err := conn.LastError()
		if !errors.Is(err, natsio.ErrPermissionViolation) || err == reported { //nolint:errorlint // the very same
			return
		}
		if timeout == nil {
			timeout = time.After(patience)
		}
		select {
		case <-news:
		case <-timeout:
			return
		}
	}
}

// report notes an error of the NATS client. It returns the refused subject if it is new.
func (f *flusher) report(err error) (news string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := deniedKey(err); key != "" {
		if _, known := f.denied[key]; !known {
			news = key
		}
		if len(f.denied) >= maxDenied {
			clear(f.denied)
		}
		f.denied[key] = f.number
		f.any.Store(true)
	}
	f.reported = err
	close(f.news)
	f.news = make(chan struct{})
	return news
}

const (
	toPublish   = `Publish to "`
	toSubscribe = `Subscription to "`
)

func deniedKey(err error) string {
	text := err.Error()
	for _, what := range []string{toPublish, toSubscribe} {
		if i := strings.Index(text, what); i >= 0 {
			if end := strings.LastIndexByte(text, '"'); end > i+len(what) {
				return text[i:end]
			}
		}
	}
	return ""
}

// denies returns an error if the server refused to publish or to subscribe (what) to a subject since begin returned
// since.
func (f *flusher) denies(what, subject string, since uint64) error {
	if !f.any.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, ok := f.denied[what+subject]; !ok || at < since {
		return nil
	}
	return fmt.Errorf("nats: the server does not permit subject %q: %w", subject, protocol.ErrorPermissionDenied)
}
