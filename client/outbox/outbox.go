// Package outbox keeps publications and calls while they cannot be sent, and sends them in their order when they can. With
// a store, such as a File, they outlive the program.
//
//	store, err := outbox.OpenFile("outbox.log")
//	...
//	box, err := outbox.New(c, outbox.Options{Store: store})
//	...
//	sending, err := box.Publish("chat", []byte(`{"text":"hello"}`), nil)
//	if err != nil { // it is not kept
//	}
//	_, err = sending.Wait(ctx) // how it ended
//
// An entry is sent at least once: if the connection ends before the reply, it is sent again, with the same idempotency
// key. docs/sdk-spec.md has the details.
package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/internal/random"
)

// Kind of an Entry.
type Kind string

// Kinds of entries.
const (
	Publish Kind = "publish"
	RPC     Kind = "rpc"
)

// Entry is a publication or a call that waits to be sent.
type Entry struct {
	ID      uint64    `json:"id"` // its place in the order
	Kind    Kind      `json:"kind"`
	To      string    `json:"to"` // the channel, or the method
	Data    []byte    `json:"data"`
	Key     string    `json:"key"`     // names it for the backend, however often it is sent
	Expires time.Time `json:"expires"` // when it is given up
}

// size is the part of Options.MaxSize that an entry takes.
func (e *Entry) size() int { return len(e.To) + len(e.Data) + len(e.Key) }

// sequence names the entries that keep their order.
func (e *Entry) sequence() string {
	if e.Kind == RPC {
		return "rpc"
	}
	return "publish " + e.To
}

// Outcome is how an entry ended: with the Result of a call, or with an error.
type Outcome struct {
	Entry  Entry
	Result []byte
	Err    error
}

// Store keeps entries over restarts of the program. Any goroutine may call its methods.
type Store interface {
	// Load returns all entries, in any order. It is called once.
	Load() ([]Entry, error)
	// Put adds an entry, and returns when it is safe.
	Put(e Entry) error
	// Delete removes one.
	Delete(id uint64) error
}

// Errors of an Outbox, besides the client's. client.ErrClosed: the outbox, or the client, has been closed.
var (
	// ErrExpired: the time of the entry was over before it could be sent.
	ErrExpired = &client.Error{Code: 16, Message: "expired"}
	// ErrFull: the waiting entries have reached a limit of Options; an error that wraps it has the figures.
	ErrFull = &client.Error{Code: 17, Message: "outbox full"}
)

// Options of an Outbox.
type Options struct {
	// Store of the entries, for one outbox at a time, which does not close it. Default: memory alone.
	Store Store
	// Expiry is how long entries are kept. Default: 1 h.
	Expiry time.Duration
	// MaxEntries is how many entries may wait, MaxSize how many bytes of data, keys and names. Default: 1,000 and 1,000,000.
	MaxEntries, MaxSize int
	// WithKey returns the data to send for an entry, with its key in it, by which the backend recognizes an entry.
	// Default: the data alone; the protocol has no field for the key.
	WithKey func(e Entry) []byte
	// Restored hears of the entries of an earlier run of the program, in their order, if there are some: within New,
	// before any has an outcome.
	Restored func(entries []Entry)
	// Outcome hears of each outcome, also of entries of an earlier run. It is called one at a time, and the entry is
	// removed from the store after it. It may call the outbox, except for Close.
	Outcome func(o Outcome)
	// MinDelay and MaxDelay bound the pause after the server could not take an entry: MinDelay and a random part of a
	// span, which is MinDelay at first and doubles with each failure, up to MaxDelay. Default: 500 ms and 20 s.
	MinDelay, MaxDelay time.Duration
	// Logger hears when the store fails to remove an entry. Default: slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Expiry = cmp.Or(o.Expiry, time.Hour)
	o.MaxEntries, o.MaxSize = cmp.Or(o.MaxEntries, 1000), cmp.Or(o.MaxSize, 1_000_000)
	o.MinDelay, o.MaxDelay = cmp.Or(o.MinDelay, 500*time.Millisecond), cmp.Or(o.MaxDelay, 20*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.WithKey == nil {
		o.WithKey = func(e Entry) []byte { return e.Data }
	}
	if o.Restored == nil {
		o.Restored = func([]Entry) {}
	}
	if o.Outcome == nil {
		o.Outcome = func(Outcome) {}
	}
	if o.Expiry < 0 || o.MaxEntries < 0 || o.MaxSize < 0 || o.MinDelay < 0 || o.MaxDelay < o.MinDelay {
		return o, errors.New("outbox: one of Options is negative, or MaxDelay less than MinDelay")
	}
	return o, nil
}

// Outbox keeps entries and sends them. Any goroutine may call its methods.
type Outbox struct {
	client  *client.Client
	options Options
	ctx     context.Context // ends when the outbox is closed
	stop    context.CancelFunc
	running sync.WaitGroup
	telling sync.Mutex // one outcome at a time

	mu      sync.Mutex
	senders map[string]*sender
	last    uint64 // ID of the newest entry
	count   int
	size    int
	up      chan struct{} // closed while the client is connected
	isUp    bool
}

// New returns an outbox that sends over a client, first the entries of the store. It ends with Close, or with the
// client.
func New(c *client.Client, o Options) (*Outbox, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Outbox{client: c, options: o, senders: make(map[string]*sender), up: make(chan struct{})}
	b.ctx, b.stop = context.WithCancel(context.Background())
	if o.Store != nil {
		entries, err := o.Store.Load()
		if err != nil {
			b.stop()
			return nil, fmt.Errorf("outbox: loading the store: %w", err)
		}
		slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
		if len(entries) > 0 {
			o.Restored(slices.Clone(entries))
		}
		b.mu.Lock()
		for _, e := range entries {
			b.last = max(b.last, e.ID)
			b.take(&Sending{Entry: e, done: make(chan struct{}), kept: closed})
		}
		b.mu.Unlock()
	}
	events := c.Events(b.ctx)
	b.running.Go(func() {
		defer b.shut()
		b.connection()
		for range events {
			b.connection()
		}
	})
	return b, nil
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (b *Outbox) connection() {
	state, _ := b.client.State()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch up := state == client.Connected; {
	case up == b.isUp:
	case up:
		b.isUp = true
		close(b.up)
	default:
		b.isUp = false
		b.up = make(chan struct{})
	}
}

// Close sends no more, and waits until Outcome returns. Entries stay in the store, and their Wait returns
// client.ErrClosed. An entry under way will be sent again.
func (b *Outbox) Close() {
	b.shut()
	b.running.Wait()
}

// shut ends all goroutines. Nothing is taken any more.
func (b *Outbox) shut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
}

// Len is how many entries wait.
func (b *Outbox) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// EntryOptions are the options of one entry. nil means the defaults.
type EntryOptions struct {
	// Key is the idempotency key. Default: 128 random bits, in hexadecimal digits.
	Key string
	// Expiry in place of Options.Expiry.
	Expiry time.Duration
}

// Publish publishes to a channel as soon as it can be done. The entries of a channel are sent in the order of the calls.
// It returns when the entry is kept. After an error the entry will not be sent: ErrFull, client.ErrClosed, or the error
// of the store.
func (b *Outbox) Publish(channel string, data []byte, o *EntryOptions) (*Sending, error) {
	return b.add(Entry{Kind: Publish, To: channel, Data: data}, o)
}

// RPC calls a method as soon as it can be done. All calls are sent in their order. It returns when the entry is kept.
// After an error the entry will not be sent: ErrFull, client.ErrClosed, or the error of the store.
func (b *Outbox) RPC(method string, data []byte, o *EntryOptions) (*Sending, error) {
	return b.add(Entry{Kind: RPC, To: method, Data: data}, o)
}

func (b *Outbox) add(e Entry, o *EntryOptions) (*Sending, error) {
	if o == nil {
		o = new(EntryOptions)
	}
	e.Key = o.Key
	if e.Key == "" {
		var key [16]byte
		rand.Read(key[:]) // never fails
		e.Key = hex.EncodeToString(key[:])
	}
	e.Data = slices.Clone(e.Data)
	e.Expires = now().Add(cmp.Or(o.Expiry, b.options.Expiry))
	kept := make(chan struct{})
	s := &Sending{Entry: e, done: make(chan struct{}), kept: kept}
	if err := b.admit(s); err != nil {
		return nil, err
	}
	defer close(kept)
	if b.options.Store == nil {
		return s, nil
	}
	if err := b.options.Store.Put(s.Entry); err != nil {
		b.remove(s)
		return nil, fmt.Errorf("outbox: storing an entry: %w", err)
	}
	return s, nil
}

// admit takes an entry before it is stored, so that entries have the order of the calls.
func (b *Outbox) admit(s *Sending) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return client.ErrClosed
	}
	if size := b.size + s.Entry.size(); b.count >= b.options.MaxEntries || size > b.options.MaxSize {
		return fmt.Errorf("%w: %d entries wait, of Options.MaxEntries %d; with this one, they have %d bytes, of Options.MaxSize %d",
			ErrFull, b.count, b.options.MaxEntries, size, b.options.MaxSize)
	}
	b.last++
	s.Entry.ID = b.last
	b.take(s)
	return nil
}

// take: the lock is held.
func (b *Outbox) take(s *Sending) {
	name := s.Entry.sequence()
	l := b.senders[name]
	if l == nil {
		l = &sender{Outbox: b, name: name, changed: make(chan struct{}, 1), random: random.Float64}
		b.senders[name] = l
		b.running.Go(l.run)
	}
	l.queue = append(l.queue, s)
	b.count++
	b.size += s.Entry.size()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// remove reports whether the entry was there.
func (b *Outbox) remove(s *Sending) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.senders[s.Entry.sequence()]
	if l == nil {
		return false
	}
	at := slices.Index(l.queue, s)
	if at < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, at, at+1)
	b.count--
	b.size -= s.Entry.size()
	return true
}

// Sending is an entry on its way.
type Sending struct {
	Entry Entry

	kept   chan struct{} // closed when the store has it, or has refused it
	done   chan struct{} // closed when result and err are set
	result []byte
	err    error
}

// Done is closed when the entry has an outcome, or the outbox has been closed.
func (s *Sending) Done() <-chan struct{} { return s.done }

// Wait returns the answer to a call, or an error: the server's, ErrExpired, client.ErrClosed, or the cause of the end of
// ctx.
func (s *Sending) Wait(ctx context.Context) ([]byte, error) {
	select {
	case <-s.done:
		return s.result, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// now goes on while the machine sleeps.
func now() time.Time { return time.Now().Round(0) }
