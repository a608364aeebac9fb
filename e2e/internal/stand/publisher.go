package stand

import (
	"bytes"
	"context"
	"encoding/json"
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
)

// publisher numbers the publications of one channel. It goes on to the next number
// when one is acknowledged, and repeats it, with the same idempotency key, until then.
// Without such keys it leaves a number that was answered with an error in doubt.
type publisher struct {
	channel string
	run     string
	nodes   []string
	key     string
	every   time.Duration
	client  *http.Client
	answers *answers
	ledger  *ledger

	// keyless has no idempotency keys; otherwise each number that doubled divides is
	// published once more when it has been acknowledged.
	keyless bool
	doubled int64
	// text comes along with the numbers; "" for none.
	text string
}

// text that comes along with number n, much of which is the same for all.
func text(base string, n int64) string {
	if base == "" {
		return ""
	}
	return fmt.Sprintf("%s, for the %d. time", base, n)
}

// answers counts what publishers were told, over a span of time.
type answers struct {
	mu sync.Mutex
	// Errors by what they said.
	errors  map[string]int
	oks     int
	longest time.Duration
	hung    int
}

// Answers are what the publishers got in a span of time.
type Answers struct {
	// OK answers, and Errors by their text.
	OK     int
	Errors map[string]int
	// Longest time that an answer took.
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
	a.longest = max(a.longest, took)
	if err == nil {
		a.oks++
		return
	}
	if a.errors == nil {
		a.errors = map[string]int{}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		a.hung++
	}
	a.errors[brief(err)]++
}

// brief is an error without what differs from one to the next.
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
	return Answers{OK: a.oks, Errors: maps.Clone(a.errors), Longest: a.longest, Hung: a.hung}
}

func (a *answers) begin() Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := Answers{OK: a.oks, Errors: a.errors, Longest: a.longest, Hung: a.hung}
	a.oks, a.errors, a.longest, a.hung = 0, nil, 0, 0
	return was
}

// work publishes until ctx ends.
func (p *publisher) work(ctx context.Context, first int) {
	next := first
	for n := int64(1); ctx.Err() == nil; n++ {
		p.ledger.begin(n)
		for ctx.Err() == nil {
			start := time.Now()
			err := p.publish(ctx, p.nodes[next%len(p.nodes)], n)
			next++
			if ctx.Err() != nil {
				break
			}
			p.answers.note(err, time.Since(start))
			if err == nil {
				p.ledger.ack(n)
				break
			}
			if p.keyless {
				p.ledger.doubt(n)
				break
			}
			wait(ctx, 50*time.Millisecond)
		}
		if p.doubled > 0 && n%p.doubled == 0 {
			_ = p.publish(ctx, p.nodes[next%len(p.nodes)], n) // whatever comes of it: n has been acknowledged
		}
		wait(ctx, p.every)
	}
}

// publish has one node publish number n.
func (p *publisher) publish(ctx context.Context, node string, n int64) error {
	key := ""
	if !p.keyless {
		key = fmt.Sprintf("%s-%d", p.run, n)
	}
	body := fmt.Appendf(nil, `{"channel":%q,"data":{"n":%d,"text":%q},"idempotency_key":%q}`, p.channel, n, text(p.text, n), key)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+node+"/api/publish", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", p.key)
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	var result struct {
		Error *struct {
			Code    int
			Message string
		}
		Result *struct{}
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return fmt.Errorf("answer of the API: %w", err)
	}
	if result.Error != nil {
		return fmt.Errorf("error %d %s", result.Error.Code, result.Error.Message)
	}
	if result.Result == nil {
		return errors.New("the API answered nothing")
	}
	return nil
}
