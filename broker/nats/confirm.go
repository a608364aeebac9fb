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

// confirmer finds out that the server has processed everything that was sent before: it
// sends a ping, which the server answers in its turn. One ping is under way at a time; calls
// that come meanwhile share the next one.
type confirmer struct {
	conn    func() *natsio.Conn
	timeout time.Duration

	mu     sync.Mutex
	busy   bool
	next   *roundTrip // not sent yet; nil if no call waits
	number uint64
	// denied has the subjects that the server refused, each with the number of the last
	// ping before which it did. The NATS client reports refusals in a goroutine of its own.
	denied map[string]uint64
	any    atomic.Bool // denied is not empty
	// reported is the newest error that was reported.
	reported error
	news     chan struct{} // closed at each report
}

// roundTrip is a ping that several calls wait for.
type roundTrip struct {
	done chan struct{}
	err  error
}

// maxDenied bounds denied. One ping has much fewer refusals before it.
const maxDenied = 4096

func newConfirmer(timeout time.Duration, conn func() *natsio.Conn) *confirmer {
	return &confirmer{conn: conn, timeout: timeout, denied: make(map[string]uint64), news: make(chan struct{})}
}

// begin returns the argument since of denies for messages that are sent from now on.
func (c *confirmer) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

// confirm returns nil when the server has processed everything that was sent before.
func (c *confirmer) confirm(ctx context.Context) error {
	c.mu.Lock()
	if !c.busy {
		c.busy = true
		c.number++
		c.mu.Unlock()
		err := c.ping(ctx)
		if c.more() {
			go c.run()
		}
		return err
	}
	t := c.next
	if t == nil {
		t = &roundTrip{done: make(chan struct{})}
		c.next = t
	}
	c.mu.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// more tells whether a call waits for another ping. If not, the next call of confirm sends one itself.
func (c *confirmer) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = c.next != nil
	return c.busy
}

func (c *confirmer) run() {
	for {
		c.mu.Lock()
		t := c.next
		c.next = nil
		c.number++
		c.mu.Unlock()
		t.err = c.ping(context.Background())
		close(t.done)
		if !c.more() {
			return
		}
	}
}

// ping makes one round trip.
func (c *confirmer) ping(ctx context.Context) error {
	conn := c.conn()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("nats: no answer: %w", err)
	}
	c.catchUp(conn)
	return nil
}

// patience is how long to wait for the report of an error that the NATS client has.
const patience = 200 * time.Millisecond

// catchUp waits until the refusals that the NATS client has are in denied. They are reported
// by another goroutine, which may take a moment.
func (c *confirmer) catchUp(conn *natsio.Conn) {
	var timeout <-chan time.Time
	for {
		c.mu.Lock()
		reported, news := c.reported, c.news
		c.mu.Unlock()
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
func (c *confirmer) report(err error) (news string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := deniedKey(err); key != "" {
		if _, known := c.denied[key]; !known {
			news = key
		}
		if len(c.denied) >= maxDenied {
			clear(c.denied)
		}
		c.denied[key] = c.number
		c.any.Store(true)
	}
	c.reported = err
	close(c.news)
	c.news = make(chan struct{})
	return news
}

const (
	toPublish   = `Publish to "`
	toSubscribe = `Subscription to "`
)

// deniedKey takes the refused subject from the text of the server's error.
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

// denies returns an error if the server refused to publish or to subscribe to a subject after begin returned since. what says
// which: toPublish or toSubscribe.
func (c *confirmer) denies(what, subject string, since uint64) error {
	if !c.any.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.denied[what+subject]; !ok || at < since {
		return nil
	}
	return fmt.Errorf("nats: the server does not permit subject %q: %w", subject, protocol.ErrorPermissionDenied)
}
