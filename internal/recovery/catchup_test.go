package recovery_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/internal/testkit/proptest"
	"github.com/gyrohq/gyro/protocol"
)

// board is a map with a bounded stream of changes: the model of an engine.
type board struct {
	epoch   int
	entries map[string]*channel.Publication
	stream  []*channel.Publication
	top     uint64
	keep    int
}

func (b *board) position() channel.StreamPosition {
	return channel.StreamPosition{Offset: b.top, Epoch: fmt.Sprint("epoch", b.epoch)}
}

// change sets or removes a key, or makes the map anew.
func (b *board) change(random *rand.Rand) {
	if random.IntN(3000) == 0 {
		*b = board{epoch: b.epoch + 1, entries: map[string]*channel.Publication{}, keep: b.keep}
	}
	key := fmt.Sprintf("key%02d", random.IntN(40))
	_, exists := b.entries[key]
	pub := &channel.Publication{Key: key, Removed: exists && random.IntN(3) == 0, Data: fmt.Appendf(nil, "%d", b.top)}
	b.top++
	pub.Offset = b.top
	if b.entries[key] = pub; pub.Removed {
		delete(b.entries, key)
	}
	b.stream = append(b.stream, pub)
	b.stream = b.stream[max(0, len(b.stream)-b.keep):]
}

func (b *board) state(f channel.StateFilter) channel.State {
	s := channel.State{Top: b.position()}
	for _, key := range slices.Sorted(maps.Keys(b.entries)) {
		if key <= f.Cursor {
			continue
		}
		if len(s.Entries) == f.Limit {
			s.Cursor = s.Entries[f.Limit-1].Key
			break
		}
		s.Entries = append(s.Entries, b.entries[key])
	}
	return s
}

func (b *board) history(f channel.HistoryFilter) channel.History {
	h := channel.History{Top: b.position()}
	for _, p := range b.stream {
		if p.Offset > f.Since.Offset && len(h.Publications) < f.Limit {
			h.Publications = append(h.Publications, p)
		}
	}
	return h
}

// reader is a client that keeps what it gets.
type reader struct {
	has      map[string]string
	position channel.StreamPosition
}

func (r *reader) apply(pubs []*channel.Publication) {
	for _, p := range pubs {
		if r.has[p.Key] = string(p.Data); p.Removed {
			delete(r.has, p.Key)
		}
	}
}

func all(*channel.Publication) bool { return true }

// TestCatchup: however the map changes between the requests of a client, what it has when it is live is
// the map.
func TestCatchup(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	b := &board{entries: map[string]*channel.Publication{}, keep: 60}
	rounds, restarts, pages, recovered := proptest.Rounds(2_000), 0, 0, 0
	r := &reader{}
	for range rounds {
		opts := &channel.MapSubscription{
			Kind: channel.MapData, MinPageSize: 1, MaxPageSize: 1 + random.IntN(50), LiveLimit: 1 + random.IntN(50),
		}
		busy := random.IntN(12)
		between := func() {
			for range random.IntN(busy + 1) {
				b.change(random)
			}
		}
		c := recovery.NewCatchup(opts, 0, 100+random.IntN(5000))
		req := &protocol.SubscribeRequest{Phase: recovery.PhaseState, Limit: int32(random.IntN(30))}
		if r.position.Epoch != "" && random.IntN(2) == 0 {
			req = &protocol.SubscribeRequest{Phase: recovery.PhaseStream, Recover: true, Offset: r.position.Offset, Epoch: r.position.Epoch, Limit: req.Limit}
		} else {
			r.has = map[string]string{}
		}
		was, live, err := *req, false, error(nil)
		for n := 0; !live && err == nil; n++ {
			if n > 1000 {
				t.Fatalf("seed %d: no end: %+v", seed, req)
			}
			between()
			live, err = serve(b, c, r, req)
			pages++
		}
		switch {
		case err == nil:
			if was.Recover {
				recovered++
			}
		case errors.Is(err, protocol.ErrorUnrecoverablePosition):
			restarts++
			*r = reader{}
			continue
		default:
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := map[string]string{}
		for key, p := range b.entries {
			want[key] = string(p.Data)
		}
		if !maps.Equal(r.has, want) || r.position != b.position() {
			t.Fatalf("seed %d: at %+v the client has %v, the map at %+v %v", seed, r.position, r.has, b.position(), want)
		}
	}
	t.Logf("%d pages; began anew %d times, recovered %d times", pages, restarts, recovered)
	if restarts < rounds/100 || recovered < rounds/10 {
		t.Error("the rounds do not have what is to be tested")
	}
}

// serve does one request of a client, and makes the next one.
func serve(b *board, c *recovery.Catchup, r *reader, req *protocol.SubscribeRequest) (live bool, err error) {
	step, err := c.Ask(req)
	var page recovery.Page
	switch {
	case err != nil:
		return false, err
	case step == recovery.ReadState:
		page, live, err = c.Entries(b.state(c.StateFilter()), all)
	case step == recovery.ReadChanges:
		page, live, err = c.Changes(b.history(c.HistoryFilter()), all)
	default:
		live = true
	}
	if err != nil {
		return false, err
	}
	r.apply(page.Publications)
	if live {
		r.position, err = goLive(b, c, r)
		return true, err
	}
	switch {
	case page.Cursor != "":
		req.Cursor, req.Offset, req.Epoch = page.Cursor, page.Position.Offset, page.Position.Epoch
	default:
		*req = protocol.SubscribeRequest{Phase: recovery.PhaseStream, Offset: page.Position.Offset, Epoch: page.Position.Epoch, Limit: req.Limit, Recover: req.Recover}
	}
	return false, nil
}

// goLive reads the last changes, as a session does.
func goLive(b *board, c *recovery.Catchup, r *reader) (channel.StreamPosition, error) {
	ask := recovery.Request{Since: c.Since(), Limit: c.LiveLimit()}
	budget := 1 << 30
	h := b.history(recovery.Map.Query(ask))
	m, _, err := recovery.Resume(recovery.Map, ask, h, &budget)
	r.apply(m.Publications)
	return channel.StreamPosition{Offset: m.Offset, Epoch: h.Top.Epoch}, err
}

// TestForeignPosition: a client begins anew that names another epoch than that of its first page, or an offset that the stream does not
// have, as after a server came back without its newest changes.
func TestForeignPosition(t *testing.T) {
	opts := &channel.MapSubscription{Kind: channel.MapData, MinPageSize: 1, MaxPageSize: 1, LiveLimit: 1}
	b := &board{entries: map[string]*channel.Publication{}, keep: 60}
	random := rand.New(rand.NewPCG(1, 0))
	for len(b.entries) < 10 {
		b.change(random)
	}
	newest := b.position()
	for _, test := range []struct {
		name string
		then protocol.SubscribeRequest // after the first page of the state
	}{
		{"a page of another epoch", protocol.SubscribeRequest{Phase: recovery.PhaseState, Cursor: "key", Epoch: "other"}},
		{"changes of another epoch", protocol.SubscribeRequest{Phase: recovery.PhaseStream, Offset: newest.Offset, Epoch: "other"}},
		{"changes after the newest", protocol.SubscribeRequest{Phase: recovery.PhaseStream, Offset: newest.Offset + 1, Epoch: newest.Epoch}},
	} {
		c, r := recovery.NewCatchup(opts, 0, 1000), &reader{has: map[string]string{}}
		first := &protocol.SubscribeRequest{Phase: recovery.PhaseState, Limit: 1}
		if live, err := serve(b, c, r, first); live || err != nil || first.Cursor == "" {
			t.Fatalf("%s: after the first page: live %v, %v, %+v", test.name, live, err, first)
		}
		step, err := c.Ask(&test.then)
		if err == nil && step == recovery.ReadChanges {
			_, _, err = c.Changes(b.history(c.HistoryFilter()), all)
		}
		if !errors.Is(err, protocol.ErrorUnrecoverablePosition) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestPageSize(t *testing.T) {
	for _, test := range []struct {
		opts channel.MapSubscription
		wish int32
		want int
	}{
		{channel.MapSubscription{}, 0, 100},
		{channel.MapSubscription{}, -1, 100},
		{channel.MapSubscription{}, 5, 100},
		{channel.MapSubscription{}, 500, 500},
		{channel.MapSubscription{}, 5000, 1000},
		{channel.MapSubscription{PageSize: 7, MinPageSize: 2, MaxPageSize: 9}, 0, 7},
		{channel.MapSubscription{PageSize: 7, MinPageSize: 2, MaxPageSize: 9}, 1, 2},
		{channel.MapSubscription{PageSize: 7, MinPageSize: 2, MaxPageSize: 9}, 10, 9},
		{channel.MapSubscription{MaxPageSize: 9}, 0, 9},
	} {
		c := recovery.NewCatchup(&test.opts, 0, 1<<20)
		if _, err := c.Ask(&protocol.SubscribeRequest{Phase: recovery.PhaseState, Limit: test.wish}); err != nil {
			t.Fatal(err)
		}
		if got := c.StateFilter().Limit; got != test.want {
			t.Errorf("%+v, %d: %d, want %d", test.opts, test.wish, got, test.want)
		}
	}
}

func TestLate(t *testing.T) {
	for _, test := range []struct {
		timeout time.Duration
		after   time.Duration
		want    bool
	}{
		{0, 5 * time.Second, false},
		{0, 5*time.Second + 1, true},
		{time.Second, time.Second + 1, true},
		{-1, 1000 * time.Hour, false},
	} {
		c := recovery.NewCatchup(&channel.MapSubscription{CatchUpTimeout: test.timeout}, 7, 1)
		if got := c.Late(7 + int64(test.after)); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestLargeEntries: a page has as many entries as fit, and at least one.
func TestLargeEntries(t *testing.T) {
	c := recovery.NewCatchup(&channel.MapSubscription{}, 0, 1000)
	var entries []*channel.Publication
	for i := range 4 {
		entries = append(entries, &channel.Publication{Key: fmt.Sprint(i), Data: make([]byte, 300), Offset: uint64(i + 1)})
	}
	top := channel.StreamPosition{Offset: 4, Epoch: "e"}
	p, live, err := c.Entries(channel.State{Entries: entries, Top: top}, all)
	if err != nil || live || len(p.Publications) != 2 || p.Cursor != "1" {
		t.Errorf("%d entries, cursor %q, live %v, %v", len(p.Publications), p.Cursor, live, err)
	}
	entries[2].Data = make([]byte, 5000)
	p, live, err = c.Entries(channel.State{Entries: entries[2:], Top: top}, all)
	if err != nil || live || len(p.Publications) != 1 || p.Cursor != "2" {
		t.Errorf("%d entries, cursor %q, live %v, %v", len(p.Publications), p.Cursor, live, err)
	}
	p, live, err = c.Entries(channel.State{Entries: entries[3:], Top: top}, all)
	if err != nil || !live || len(p.Publications) != 1 {
		t.Errorf("%d entries, live %v, %v", len(p.Publications), live, err)
	}
}
