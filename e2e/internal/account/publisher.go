package account

import (
	"cmp"
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

// Publisher numbers the publications of a channel. It repeats a number, with the same idempotency key, until it is
// acknowledged. Without keys it publishes each number once, and notes which were answered with an error.
type Publisher struct {
	Channel string
	// Run begins the idempotency keys.
	Run string
	// Nodes are the addresses to publish to in turn, from number First on, with a pause of Every.
	Nodes []string
	First int
	Every time.Duration
	// Retry is the pause before a repetition; 50 ms if it is zero.
	Retry    time.Duration
	Client   *http.Client
	Recorder *Recorder
	Ledger   *Ledger

	// Keyless publishers use no idempotency keys. Others publish each number that Doubled divides once more after it was
	// acknowledged.
	Keyless bool
	Doubled int64
	Text    string
}

type Payload struct {
	N    int64  `json:"n"`
	Text string `json:"text"`
}

// Text returns the text of number n. The texts of all numbers have most bytes in common.
func Text(base string, n int64) string {
	if base == "" {
		return ""
	}
	return fmt.Sprintf("%s, for the %d. time", base, n)
}

type Recorder struct {
	mu sync.Mutex
	Answers
}

// Answers counts the answers to publishers in a span of time.
type Answers struct {
	OK      int
	Errors  map[string]int
	Longest time.Duration
	// Hung is how many requests had no answer within the limit.
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

func (a *Recorder) Note(err error, took time.Duration) {
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
	a.Errors[Brief(err)]++
}

// Brief returns the text of an error without addresses.
func Brief(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	if errors.Is(err, io.EOF) {
		return "connection ended"
	}
	return err.Error()
}

func (a *Recorder) Peek() Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	span := a.Answers
	span.Errors = maps.Clone(span.Errors)
	return span
}

func (a *Recorder) Begin() Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.Answers
	a.Answers = Answers{}
	return before
}

func (p *Publisher) Work(ctx context.Context) {
	next := p.First
	for n := int64(1); ctx.Err() == nil; n++ {
		p.Ledger.Begun.Store(n)
		for ctx.Err() == nil {
			start := time.Now()
			err := p.publish(ctx, p.Nodes[next%len(p.Nodes)], n)
			next++
			if ctx.Err() != nil {
				break
			}
			p.Recorder.Note(err, time.Since(start))
			if err == nil {
				p.Ledger.Acked.Store(n)
				break
			}
			if p.Keyless {
				p.Ledger.doubt(n)
				break
			}
			wire.Sleep(ctx, cmp.Or(p.Retry, 50*time.Millisecond))
		}
		if p.Doubled > 0 && n%p.Doubled == 0 {
			_ = p.publish(ctx, p.Nodes[next%len(p.Nodes)], n) // the answer does not matter: n has been acknowledged
		}
		wire.Sleep(ctx, p.Every)
	}
}

func (p *Publisher) publish(ctx context.Context, node string, n int64) error {
	params := map[string]any{"channel": p.Channel, "data": Payload{n, Text(p.Text, n)}}
	if !p.Keyless {
		params["idempotency_key"] = fmt.Sprintf("%s-%d", p.Run, n)
	}
	return rig.Call(ctx, p.Client, node, "publish", params, nil)
}
