package stand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/wire"
)

// publisher numbers the publications of one channel. It repeats a number, with the same idempotency
// key, until it is acknowledged. Without such keys it publishes each number once, and notes that a
// number that was answered with an error is in doubt.
type publisher struct {
	channel string
	run     string
	nodes   []string
	every   time.Duration
	client  *http.Client
	answers *answers
	ledger  *ledger

	// keyless publishers use no idempotency keys. Others publish each number that doubled divides
	// once more after it was acknowledged; 0 for none.
	keyless bool
	doubled int64
	// text is published with the numbers; "" for none.
	text string
}

// text returns the text of number n, most of which is the same for all numbers.
func text(base string, n int64) string {
	if base == "" {
		return ""
	}
	return fmt.Sprintf("%s, for the %d. time", base, n)
}

// answers counts what publishers were told, over a span of time.
type answers struct {
	mu sync.Mutex
	Answers
}

// Answers counts the answers to publishers in a span of time.
type Answers struct {
	// OK counts acknowledgements, Errors errors by their text.
	OK     int
	Errors map[string]int
	// Longest is the longest time that an answer took.
	Longest time.Duration
	// Hung is how many requests got no answer within the limit.
	Hung int
}

// Failed is the number of errors of all kinds.
func (a Answers) Failed() int {
	n := 0
	for _, count := range a.Errors {
		n += count
	}
	return n
}

func (a Answers) String() string {
	parts := []string{fmt.Sprintf("%d ok", a.OK)}
	for _, text := range slices.Sorted(maps.Keys(a.Errors)) {
		parts = append(parts, fmt.Sprintf("%d x %s", a.Errors[text], text))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf("; longest %v", a.Longest.Round(time.Millisecond))
}

func (a *answers) note(err error, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Longest = max(a.Longest, took)
	if err == nil {
		a.OK++
		return
	}
	if a.Errors == nil {
		a.Errors = map[string]int{}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		a.Hung++
	}
	a.Errors[brief(err)]++
}

// brief returns the text of an error without addresses.
func brief(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	if errors.Is(err, io.EOF) {
		return "connection ended"
	}
	return err.Error()
}

// peek returns the span so far.
func (a *answers) peek() Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	span := a.Answers
	span.Errors = maps.Clone(span.Errors)
	return span
}

// begin starts a span and returns the one before.
func (a *answers) begin() Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.Answers
	a.Answers = Answers{}
	return before
}

// work publishes until ctx ends.
func (p *publisher) work(ctx context.Context, first int) {
	next := first
	for n := int64(1); ctx.Err() == nil; n++ {
		p.ledger.begun.Store(n)
		for ctx.Err() == nil {
			start := time.Now()
			err := p.publish(ctx, p.nodes[next%len(p.nodes)], n)
			next++
			if ctx.Err() != nil {
				break
			}
			p.answers.note(err, time.Since(start))
			if err == nil {
				p.ledger.acked.Store(n)
				break
			}
			if p.keyless {
				p.ledger.doubt(n)
				break
			}
			wire.Sleep(ctx, 50*time.Millisecond)
		}
		if p.doubled > 0 && n%p.doubled == 0 {
			_ = p.publish(ctx, p.nodes[next%len(p.nodes)], n) // the answer does not matter: n has been acknowledged
		}
		wire.Sleep(ctx, p.every)
	}
}

// publish has one node publish number n.
func (p *publisher) publish(ctx context.Context, node string, n int64) error {
	params := map[string]any{"channel": p.channel, "data": payload{n, text(p.text, n)}}
	if !p.keyless {
		params["idempotency_key"] = fmt.Sprintf("%s-%d", p.run, n)
	}
	return rig.Call(ctx, p.client, node, "publish", params, nil)
}
