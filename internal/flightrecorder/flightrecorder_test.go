package flightrecorder

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/inspect"
)

// The oracle keeps all events in a list, and selects from it what a recorder has to return.
func TestRead(t *testing.T) {
	r := New(8*chunkSize, 2)
	var all []inspect.Event
	clients := []uuid.UUID{{}, uuid.New(), uuid.New()}
	texts := []string{"", "a", "b", strings.Repeat("long", 100)}
	pick := func() string { return texts[rand.IntN(len(texts))] }
	for now := range int64(900) {
		e := Record{
			Kind: inspect.Kind(1 + rand.IntN(8)), Code: rand.Uint32(), Count: rand.IntN(1000), Client: clients[rand.IntN(len(clients))],
			User: pick(), Addr: pick(), Channel: pick(), What: pick(), Text: pick(), Key: pick(),
		}
		r.Loop(rand.IntN(2)).Add(now, &e)
		want := inspect.Event{
			Kind: e.Kind, Code: e.Code, Count: e.Count, Time: time.Unix(0, now),
			User: cut(e.User), Addr: cut(e.Addr), Channel: cut(e.Channel), What: cut(e.What), Text: cut(e.Text), Key: cut(e.Key),
		}
		if e.Client != uuid.Nil {
			want.Client = e.Client.String()
		}
		all = append(all, want)
	}
	for range 300 {
		q := inspect.Query{User: pick(), Channel: pick(), Limit: 1 + rand.IntN(300)}
		if c := clients[rand.IntN(len(clients))]; c != uuid.Nil {
			q.Client = c.String()
		}
		if rand.IntN(2) == 0 {
			q.Since = time.Unix(0, rand.Int64N(900))
		}
		log := r.Read(&q)
		var want []inspect.Event
		for _, e := range all {
			if (q.User == "" || cut(q.User) == e.User) && (q.Channel == "" || cut(q.Channel) == e.Channel) &&
				(q.Client == "" || q.Client == e.Client) && !e.Time.Before(q.Since) && !e.Time.Before(log.From) {
				want = append(want, e)
			}
		}
		more := len(want) > q.Limit
		if more {
			want = want[len(want)-q.Limit:]
		}
		if len(log.Events) < len(want) || more && !log.More {
			t.Fatalf("%+v: %d events, want %d of %v", q, len(log.Events), len(want), more)
		}
		// Of one ring there may be more than since From, which is that of the ring that has forgotten most.
		got := log.Events[len(log.Events)-len(want):]
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%+v: event %d\n%+v, want\n%+v", q, i, got[i], want[i])
			}
		}
	}
}

// The memory is bounded, and what is forgotten is the oldest.
func TestForgets(t *testing.T) {
	r := New(4*chunkSize, 1)
	ring := r.Loop(0)
	for now := range int64(20_000) {
		ring.Add(now, &Record{Kind: inspect.Connected, User: fmt.Sprint(now), Text: "websocket"})
	}
	if len(ring.chunks) != ring.most || ring.most != 3 {
		t.Fatalf("%d chunks of %d", len(ring.chunks), ring.most)
	}
	log := r.Read(&inspect.Query{Limit: 100_000})
	if n := len(log.Events); n < 2*chunkSize/80 || n > 3*chunkSize/headSize || log.More {
		t.Errorf("%d events, more %v", n, log.More)
	}
	if !log.From.Equal(log.Events[0].Time) || log.Events[len(log.Events)-1].User != "19999" {
		t.Errorf("from %v, first %v", log.From.UnixNano(), log.Events[0].Time.UnixNano())
	}
	if log := r.Read(&inspect.Query{User: "0", Limit: 10}); len(log.Events) > 0 {
		t.Error("a forgotten event was found")
	}
}

// The events of a client keep their order although the turn of a loop began before a work queue
// recorded something.
func TestOrder(t *testing.T) {
	r := New(1, 1)
	r.Loop(0).Add(5, &Record{Kind: inspect.Connected})
	r.Loop(0).Add(9, &Record{Kind: inspect.Refused})
	r.Loop(0).Add(6, &Record{Kind: inspect.Disconnected})
	got := r.Read(&inspect.Query{Limit: 10}).Events
	if len(got) != 3 || got[2].Kind != inspect.Disconnected || got[2].Time.UnixNano() != 9 {
		t.Error(got)
	}
}

// A text that is cut within a character is still text.
func TestCutCharacter(t *testing.T) {
	r, user := New(1, 1), strings.Repeat("é", 200)
	r.Loop(0).Add(1, &Record{Kind: inspect.Connected, User: user})
	got := r.Read(&inspect.Query{User: user, Limit: 1}).Events
	if len(got) != 1 || got[0].User != user[:254] {
		t.Errorf("%+v", got)
	}
}

// What concerns the node comes if it is asked for, or if everything is.
func TestNodeRing(t *testing.T) {
	r := New(1, 3)
	r.Node().Add(1, &Record{Kind: inspect.Lost})
	r.Loop(2).Add(2, &Record{Kind: inspect.Connected, User: "42"})
	for q, want := range map[inspect.Query]int{{}: 2, {User: "42"}: 1, {User: "42", Nodes: true}: 2, {Client: "nobody"}: 0} {
		if q.Limit = 10; len(r.Read(&q).Events) != want {
			t.Errorf("%+v: %v", q, r.Read(&q).Events)
		}
	}
}

func TestOff(t *testing.T) {
	r := New(0, 2)
	r.Loop(0).Add(1, &Record{})
	r.Node().Add(1, &Record{})
	if log := r.Read(&inspect.Query{Limit: 1}); len(log.Events) > 0 {
		t.Error(log)
	}
}

// A reader sees whole records while others write.
func TestConcurrent(t *testing.T) {
	r := New(1, 1)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range int64(5000) {
				r.Loop(0).Add(i, &Record{Kind: inspect.Slow, User: strings.Repeat("u", w*50), Text: strings.Repeat("u", w*50)})
			}
		})
	}
	for range 50 {
		last := time.Time{}
		for _, e := range r.Read(&inspect.Query{Limit: 1 << 20}).Events {
			if e.User != e.Text || e.Kind != inspect.Slow || e.Time.Before(last) {
				t.Fatal(e)
			}
			last = e.Time
		}
	}
	writers.Wait()
}

// A chunk that is overwritten while a reader comes to it is left out, and with it what is older.
func TestForgotten(t *testing.T) {
	r := New(1, 1)
	ring := r.Loop(0)
	for now := range int64(5000) {
		ring.Add(now, &Record{Kind: inspect.Connected, User: "u"})
	}
	oldest, newest, _ := ring.span()
	if _, _, ok := ring.copyOf(oldest-1, make([]byte, chunkSize)); ok || oldest == 0 {
		t.Errorf("chunk %d of %d to %d is there", oldest-1, oldest, newest)
	}
	if _, first, ok := ring.copyOf(oldest, make([]byte, chunkSize)); !ok || first == 0 {
		t.Errorf("chunk %d of %d to %d is not there", oldest, oldest, newest)
	}
}

func TestAllocs(t *testing.T) {
	r := New(1, 1)
	e := Record{Kind: inspect.Subscribed, Client: uuid.New(), User: "42", Channel: "news:sport", Text: "server-side"}
	if n := testing.AllocsPerRun(10_000, func() { r.Loop(0).Add(1, &e) }); n > 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	r := New(8<<20, 2)
	e := Record{Kind: inspect.Subscribed, Client: uuid.New(), User: "42", Channel: "news:sport"}
	b.ReportAllocs()
	for i := range b.N {
		r.Loop(0).Add(int64(i), &e)
	}
}

func BenchmarkRead(b *testing.B) {
	r := New(8<<20, 2)
	e := Record{Kind: inspect.Subscribed, Client: uuid.New(), User: "42", Channel: "news:sport"}
	for i := range 200_000 {
		r.Loop(i%2).Add(int64(i), &e)
	}
	for b.Loop() {
		r.Read(&inspect.Query{User: "43", Limit: 100})
	}
}
