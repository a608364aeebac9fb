package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/client/internal/eventqueue"
)

// TestFixtures has the conversations that all SDKs have (clients/fixtures/README.md).
func TestFixtures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../clients/fixtures/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { run(t, string(text)) })
		})
	}
}

// runner plays server, application and clock.
type runner struct {
	t      *testing.T
	line   string
	client *Client
	subs   map[string]*Subscription
	maps   map[string]*Map
	polls  map[string]*Poll
	random float64
	slept  time.Duration
	queue  *eventqueue.Queue[Event]
	ctx    context.Context

	mu      sync.Mutex
	left    []string // what left the client
	calls   []string // of callbacks, which run on goroutines of their own, so their order beside what left has no meaning
	told    []string // what the application was told
	results map[string]outcomeOf
	aborts  map[string]context.CancelFunc
	dialed  chan error // answers the dial under way
	conn    *network
	asked   map[string]chan answerOf
}

type outcomeOf struct {
	value any
	err   error
}

type answerOf struct {
	value json.RawMessage
	err   error
}

func newRunner(t *testing.T, ctx context.Context) *runner {
	return &runner{
		t: t, subs: make(map[string]*Subscription), maps: make(map[string]*Map), polls: make(map[string]*Poll), random: 0.5, ctx: ctx,
		results: make(map[string]outcomeOf), aborts: make(map[string]context.CancelFunc), asked: make(map[string]chan answerOf),
	}
}

func run(t *testing.T, text string) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newRunner(t, ctx)
	defer func() {
		cancel()
		r.client.Close()
	}()
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r.line = fmt.Sprintf("line %d: %s", n, line)
		r.do(line)
		synctest.Wait()
	}
	r.settled()
}

func (r *runner) fatalf(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s\n%s", r.line, fmt.Sprintf(format, args...))
}

func (r *runner) settled() {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if all := slices.Concat(r.left, r.calls, r.told); len(all) > 0 {
		r.fatalf("nobody expected\n%s", strings.Join(all, "\n"))
	}
}

func (r *runner) do(line string) {
	r.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "dial", "store", "C":
		r.expect(&r.left, line)
		return
	case "call":
		r.expect(&r.calls, line)
		return
	case "event":
		r.expect(&r.told, line)
		return
	case "result", "error":
		r.outcome(word, rest)
		return
	}
	r.settled()
	switch word {
	case "client":
		r.newClient(rest)
	case "random":
		value, err := strconv.ParseFloat(rest, 64)
		r.must(err)
		r.random = value
	case "subscription":
		channel, options, _ := strings.Cut(rest, " ")
		r.subscription(channel, options)
	case "do":
		r.call(rest)
	case "return", "fail":
		name, value, _ := strings.Cut(rest, " ")
		r.answer(name, word, value)
	case "open", "refuse":
		r.dialedWith(word)
	case "S":
		r.server(rest)
	case "wait":
		d, err := time.ParseDuration(rest)
		r.must(err)
		time.Sleep(d)
	case "network":
		r.client.NetworkChanged(rest == "online")
	case "wake":
		d, err := time.ParseDuration(rest)
		r.must(err)
		r.client.mu.Lock()
		r.slept += d
		r.client.mu.Unlock()
		r.client.Woke()
	default:
		r.fatalf("unknown line")
	}
}

func (r *runner) must(err error) {
	r.t.Helper()
	if err != nil {
		r.fatalf("%v", err)
	}
}

func (r *runner) expect(queue *[]string, line string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(*queue) == 0 {
		r.fatalf("it does not happen; nobody expected\n%s", strings.Join(slices.Concat(r.left, r.calls, r.told), "\n"))
	}
	got := (*queue)[0]
	*queue = (*queue)[1:]
	exact := strings.HasPrefix(line, "C ")
	if !matches(got, line, exact) {
		r.fatalf("got  %s\nthen %s", got, strings.Join(*queue, "\n     "))
	}
}

func (r *runner) outcome(word, text string) {
	r.t.Helper()
	synctest.Wait()
	name, rest, _ := strings.Cut(text, " ")
	r.mu.Lock()
	defer r.mu.Unlock()
	got, ok := r.results[name]
	if !ok {
		r.fatalf("the call has not returned")
	}
	delete(r.results, name)
	if word == "result" {
		have, err := json.Marshal(got.value)
		if got.err != nil || err != nil || !matches("x "+string(have), "x "+rest, false) {
			r.fatalf("got %s %v", have, got.err)
		}
		return
	}
	var e *Error
	if rest == "" && got.err != nil {
		return
	}
	code, message, _ := strings.Cut(rest, " ")
	if !errors.As(got.err, &e) || code != "" && strconv.Itoa(int(e.Code)) != code || message != "" && !bytes.Contains([]byte(e.Message), []byte(message)) {
		r.fatalf("got %v", got.err)
	}
}
