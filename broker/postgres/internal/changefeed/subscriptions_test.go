package changefeed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

type server struct {
	mu     sync.Mutex
	newest RowIDs
	err    error
	asked  int
	asking func() // is called during a query, if it is not nil
}

func (s *server) unread(shards []int32) ([]RowIDs, error) {
	s.mu.Lock()
	s.asked++
	newest, err, asking := s.newest, s.err, s.asking
	s.mu.Unlock()
	if asking != nil {
		asking()
	}
	list := make([]RowIDs, len(shards))
	for i := range list {
		list[i] = newest
	}
	return list, err
}

func (s *server) open(shards int) *Subscriptions {
	return NewSubscriptions(shards, s.unread, func(run func()) bool { go run(); return true })
}

func subscribe(t *testing.T, s *Subscriptions, channels ...string) {
	t.Helper()
	if err := s.Subscribe(t.Context(), channels); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, s *Subscriptions, ch string, first RowIDs) {
	t.Helper()
	for table, id := range first {
		if id > 1 && s.Has(ch, table, id-1) || !s.Has(ch, table, id) {
			t.Errorf("%s: not from row %d of table %d on", ch, id, table)
		}
	}
}

// TestBegin: what was there before is not delivered, also by a channel that is subscribed again. Subscribing twice changes nothing.
func TestBegin(t *testing.T) {
	s := &server{newest: RowIDs{10, 20}}
	set := s.open(3)
	subscribe(t, set, "a", "b")
	s.newest = RowIDs{15, 25}
	subscribe(t, set, "a", "c")
	want(t, set, "a", RowIDs{11, 21})
	want(t, set, "b", RowIDs{11, 21})
	want(t, set, "c", RowIDs{16, 26})
	set.Remove([]string{"a"})
	if set.Has("a", 0, 1000) || set.Has("unknown", 0, 1000) {
		t.Error("a channel without subscription")
	}
	subscribe(t, set, "a")
	want(t, set, "a", RowIDs{16, 26})
	s.newest = RowIDs{}
	subscribe(t, set, "d")
	want(t, set, "d", RowIDs{1, 1})
}

// TestLost: ids that come again are delivered, whenever the database went back.
func TestLost(t *testing.T) {
	s := &server{newest: RowIDs{10, 20}}
	set := s.open(1)
	subscribe(t, set, "a")
	set.Lost(0, 0)
	want(t, set, "a", RowIDs{1, 21})
	s.asking = func() { set.Lost(1, 0) }
	subscribe(t, set, "b")
	want(t, set, "b", RowIDs{11, 1})
}

// TestFailure: a channel is not delivered before the server has answered; who asks again gets an answer.
func TestFailure(t *testing.T) {
	s := &server{newest: RowIDs{10, 20}, err: errors.New("away")}
	set := s.open(1)
	if err := set.Subscribe(t.Context(), []string{"a"}); !errors.Is(err, s.err) {
		t.Error(err)
	}
	if set.Has("a", 0, 1000) {
		t.Error("it is delivered")
	}
	s.err = nil
	subscribe(t, set, "a")
	want(t, set, "a", RowIDs{11, 21})
	subscribe(t, set, "a")
	if s.asked != 2 {
		t.Errorf("%d queries", s.asked)
	}
	set.Close()
	if err := set.Subscribe(t.Context(), []string{"b"}); err == nil {
		t.Error("subscribed after the end")
	}
}

// TestSubscribesShareQuery: all who subscribe during a query share the next one. Who leaves meanwhile, or whose context ends, is not waited for.
func TestSubscribesShareQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		s := &server{newest: RowIDs{10, 20}, asking: func() { <-answer }}
		set := s.open(4)
		var calls sync.WaitGroup
		calls.Go(func() { subscribe(t, set, "first") })
		synctest.Wait()
		for i := range 100 {
			calls.Go(func() { subscribe(t, set, fmt.Sprint("ch", i)) })
		}
		synctest.Wait()
		set.Remove([]string{"ch7"})
		calls.Go(func() { subscribe(t, set, "ch7") })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := set.Subscribe(ctx, []string{"late"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.mu.Lock()
		s.newest = RowIDs{15, 25}
		s.mu.Unlock()
		close(answer)
		calls.Wait()
		if s.asked != 2 {
			t.Errorf("%d queries", s.asked)
		}
		want(t, set, "first", RowIDs{11, 21})
		want(t, set, "ch7", RowIDs{16, 26})
		want(t, set, "ch99", RowIDs{16, 26})
	})
}

// TestWanted: a channel is named to the server from the moment on at which it may be delivered.
func TestWanted(t *testing.T) {
	s := &server{}
	set := s.open(1)
	list, all, unchanged := set.Wanted(0, false)
	if names := list.([]string); len(names) != 0 || all || !unchanged() {
		t.Errorf("%q", names)
	}
	s.asking = func() {
		if list, _, _ := set.Wanted(0, false); len(list.([]string)) != 1 || unchanged() {
			t.Errorf("%q while the begin is not known", list)
		}
	}
	subscribe(t, set, "a")
	s.asking = nil
	for i := range maxNamed {
		subscribe(t, set, fmt.Sprint(i))
	}
	if _, all, _ := set.Wanted(0, false); !all {
		t.Error("too many channels are named")
	}
}
