package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/outbox"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = wait.Limit

type message struct {
	Sequence string `json:"sequence"`
	N        int    `json:"n"`
	Key      string `json:"key"`
	Bad      bool   `json:"bad"`
}

// backend notes what it has executed: each key once, as backends do with idempotency keys.
type backend struct {
	*gyrotest.Server

	mu        sync.Mutex
	seen      map[string]bool
	sequences map[string][]int
	faults    []error // what happens to the next messages after they were executed, or before
	wire      []string
}

func newBackend(t *testing.T) *backend {
	b := &backend{seen: make(map[string]bool), sequences: make(map[string][]int)}
	b.Server = gyrotest.NewServer(t, gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
		},
		Publish: func(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
			_, err := b.execute(e.Data)
			return gyro.PublishReply{}, err
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) { return b.execute(e.Data) },
	}})
	return b
}

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{Timeout: patience}) // the default is too short for a busy machine
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (b *backend) execute(data []byte) ([]byte, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wire = append(b.wire, fmt.Sprint(m.Sequence, m.N))
	var fault error
	if len(b.faults) > 0 {
		fault, b.faults = b.faults[0], b.faults[1:]
	}
	if errors.Is(fault, protocol.ErrorInternal) {
		return nil, fault // not executed
	}
	if m.Bad {
		return nil, protocol.ErrorPermissionDenied
	}
	if !b.seen[m.Key] {
		b.seen[m.Key] = true
		b.sequences[m.Sequence] = append(b.sequences[m.Sequence], m.N)
	}
	return fmt.Append(nil, m.N), fault
}

func withKey(e outbox.Entry) []byte {
	var m message
	if json.Unmarshal(e.Data, &m) != nil {
		return e.Data
	}
	m.Key = e.Key
	data, _ := json.Marshal(m)
	return data
}

// world is a program with an outbox, which may be started anew.
type world struct {
	t       rapid.TB
	backend *backend
	path    string
	client  *client.Client
	store   *outbox.File
	box     *outbox.Outbox

	mu       sync.Mutex
	outcomes map[string][]error // by key
	change   chan struct{}
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.client, err = client.New(w.backend.URL, client.Options{Timeout: patience, MinDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond})
	w.must(err)
	w.store, err = outbox.OpenFile(w.path)
	w.must(err)
	w.box, err = outbox.New(w.client, outbox.Options{
		Store: w.store, WithKey: withKey, MinDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond,
		Outcome: func(o outbox.Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.outcomes[o.Entry.Key] = append(w.outcomes[o.Entry.Key], o.Err)
			select {
			case w.change <- struct{}{}:
			default:
			}
		},
	})
	w.must(err)
}

func (w *world) stop() {
	w.t.Helper()
	w.box.Close()
	w.client.Close()
	w.must(w.store.Close())
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// sent are the entries that a run of TestNothingIsLost has sent.
type sent struct {
	count int
	order map[string][]int // by sequence: the entries that the server accepts
	bad   map[string]bool  // by key: whether the server refuses the entry
}

func (w *world) send(rt *rapid.T, to *sent, refused bool) {
	to.count++
	sequence := rapid.SampledFrom([]string{"a", "b", "rpc"}).Draw(rt, "sequence")
	data, _ := json.Marshal(message{Sequence: sequence, N: to.count, Bad: refused})
	o := &outbox.EntryOptions{Key: fmt.Sprint("key", to.count)}
	var err error
	if sequence == "rpc" {
		_, err = w.box.RPC("m", data, o)
	} else {
		_, err = w.box.Publish(sequence, data, o)
	}
	w.must(err)
	to.bad[o.Key] = refused
	if !refused {
		to.order[sequence] = append(to.order[sequence], to.count)
	}
}

// step disturbs the client, the server or the program, or sends an entry.
func (w *world) step(ctx context.Context, rt *rapid.T, to *sent, what int) {
	fault := func(err error) {
		w.backend.mu.Lock()
		defer w.backend.mu.Unlock()
		w.backend.faults = append(w.backend.faults, err)
	}
	switch what {
	case 0:
		w.must(w.backend.Node.Users().Disconnect(ctx, gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}))
	case 1:
		w.client.Disconnect()
	case 2, 3:
		w.must(w.client.Connect(ctx))
	case 4:
		w.stop() // without a word, as a crash does
		w.start()
	case 5:
		fault(protocol.ErrorInternal)
	case 6:
		fault(protocol.DisconnectForceReconnect) // after it was executed
	case 7:
		w.send(rt, to, true)
	default:
		w.send(rt, to, false)
	}
}

func (w *world) awaitOutcomes(ctx context.Context, rt *rapid.T, n int) {
	done := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.outcomes) == n
	}
	for !done() {
		select {
		case <-w.change:
		case <-ctx.Done():
			rt.Fatalf("%d of %d outcomes", len(w.outcomes), n)
		}
	}
}

// TestNothingIsLost: whatever ends connections, or the program, and whatever the server answers, each entry is executed
// once and in the order of its sequence, and has one outcome.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	folder, runs := t.TempDir(), 0
	server := newBackend(t)
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		server.mu.Lock()
		server.seen, server.sequences, server.faults = make(map[string]bool), make(map[string][]int), nil
		server.mu.Unlock()
		w := &world{t: rt, backend: server, path: filepath.Join(folder, fmt.Sprint(runs)), outcomes: make(map[string][]error), change: make(chan struct{}, 1)}
		w.start()
		defer func() { w.stop() }()
		all := &sent{order: make(map[string][]int), bad: make(map[string]bool)}
		for _, what := range rapid.SliceOfN(rapid.IntRange(0, 12), 1, 40).Draw(rt, "what") {
			w.step(ctx, rt, all, what)
		}
		w.must(w.client.Connect(ctx))
		w.awaitOutcomes(ctx, rt, all.count)
		w.mu.Lock()
		defer w.mu.Unlock()
		server.mu.Lock()
		defer server.mu.Unlock()
		for sequence, numbers := range all.order {
			if got := server.sequences[sequence]; !slices.Equal(got, numbers) {
				rt.Fatalf("%s: %v, want %v", sequence, got, numbers)
			}
		}
		for key, list := range w.outcomes {
			if len(list) != 1 || all.bad[key] != (list[0] != nil) {
				rt.Fatalf("%s: %v", key, list)
			}
		}
		if n := w.box.Len(); n != 0 {
			rt.Fatalf("%d wait", n)
		}
	})
}

// TestOffline: entries of a disconnected client go out when it connects; bounds, expiry and answers are told.
func TestOffline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := newBackend(t)
	c := newClient(t, server.URL)
	box, err := outbox.New(c, outbox.Options{MaxEntries: 3, MaxSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	old, err := box.RPC("m", []byte(`{"sequence":"x","n":1}`), &outbox.EntryOptions{Expiry: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Wait(ctx); !errors.Is(err, outbox.ErrExpired) {
		t.Errorf("%v", err)
	}
	if _, err := box.Publish("x", make([]byte, 2000), nil); !errors.Is(err, outbox.ErrFull) || !strings.Contains(err.Error(), "MaxSize 1000") {
		t.Errorf("%v", err)
	}
	var sent []*outbox.Sending
	for n := range 3 {
		s, err := box.RPC("m", fmt.Appendf(nil, `{"sequence":"x","n":%d,"key":"k%d"}`, n, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Entry.Key) != 32 {
			t.Errorf("key %q", s.Entry.Key)
		}
		sent = append(sent, s)
	}
	if _, err := box.Publish("x", nil, nil); !errors.Is(err, outbox.ErrFull) || box.Len() != 3 {
		t.Errorf("%v", err)
	}
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	for n, s := range sent {
		if got, err := s.Wait(ctx); err != nil || string(got) != fmt.Sprint(n) {
			t.Errorf("%q %v", got, err)
		}
	}
	c.Disconnect()
	left, err := box.Publish("x", []byte(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := left.Wait(ctx); !errors.Is(err, client.ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := box.Publish("x", nil, nil); !errors.Is(err, client.ErrClosed) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Load() ([]outbox.Entry, error) { return nil, nil }
func (failing) Put(outbox.Entry) error        { return errors.New("disk full") }
func (failing) Delete(uint64) error           { return nil }

// TestStoreFails: an entry that is not kept is not sent.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	server := newBackend(t)
	c := newClient(t, server.URL)
	box, err := outbox.New(c, outbox.Options{Store: failing{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := box.RPC("m", []byte(`{}`), nil); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%v", err)
	}
	box.Close()
	server.mu.Lock()
	defer server.mu.Unlock()
	if box.Len() != 0 || len(server.wire) > 0 {
		t.Error(box.Len(), server.wire)
	}
}

// TestRestored: what an earlier run has left is told before its outcomes, in its order.
func TestRestored(t *testing.T) {
	t.Parallel()
	server := newBackend(t)
	c := newClient(t, server.URL)
	told := make(chan string, 10)
	options := outbox.Options{
		Store:    left{{ID: 2, Kind: outbox.RPC, To: "m", Data: []byte("2")}, {ID: 1, Kind: outbox.RPC, To: "m", Data: []byte("1")}}, // expired
		Restored: func(entries []outbox.Entry) { told <- fmt.Sprintf("restored %s %s", entries[0].Data, entries[1].Data) },
		Outcome:  func(o outbox.Outcome) { told <- fmt.Sprintf("%s %v", o.Entry.Data, o.Err) },
	}
	box, err := outbox.New(c, options)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, want := range []string{"restored 1 2", "1 " + outbox.ErrExpired.Error(), "2 " + outbox.ErrExpired.Error()} {
		if got := <-told; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	options.Store = left{}
	empty, err := outbox.New(c, options)
	if err != nil {
		t.Fatal(err)
	}
	empty.Close()
	if len(told) > 0 {
		t.Error(<-told)
	}
}

type left []outbox.Entry

func (l left) Load() ([]outbox.Entry, error) { return slices.Clone(l), nil }
func (left) Put(outbox.Entry) error          { return nil }
func (left) Delete(uint64) error             { return nil }

// TestSubscribing: a publication waits until the client is subscribed, if it subscribes to the channel, and expires like others.
func TestSubscribing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	order := make(chan string, 10)
	server := gyrotest.NewServer(t, gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			order <- "subscribe"
			return gyro.SubscribeReply{}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			order <- "publish"
			return gyro.PublishReply{}, nil
		},
		RPC: func(context.Context, *gyro.Client, gyro.RPCEvent) ([]byte, error) { return nil, nil },
	}})
	c := newClient(t, server.URL)
	box, err := outbox.New(c, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	token := make(chan string)
	sub, err := c.NewSubscription("x", &client.SubscribeOptions{GetToken: func(ctx context.Context, _ string) (string, error) {
		select {
		case t := <-token:
			return t, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	sub.Subscribe()
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	old, err := box.Publish("x", []byte(`1`), &outbox.EntryOptions{Expiry: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Wait(ctx); !errors.Is(err, outbox.ErrExpired) {
		t.Errorf("%v", err)
	}
	s, err := box.Publish("x", []byte(`2`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RPC(ctx, "m", []byte(`3`)); err != nil {
		t.Fatal(err)
	}
	token <- "token"
	if _, err := s.Wait(ctx); err != nil {
		t.Error(err)
	}
	if first, second := <-order, <-order; first != "subscribe" || second != "publish" {
		t.Error(first, second)
	}
}
