package groupcommit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

type item struct {
	Job
	n   int
	err error
}

func (i *item) CommitJob() *Job { return &i.Job }

// recorder records batches; each waits for a token.
type recorder struct {
	*Queue[*item]
	batches chan []int
	tokens  chan struct{}
	running sync.WaitGroup
}

func newRecorder(most int) *recorder {
	l := &recorder{batches: make(chan []int, 100), tokens: make(chan struct{}, 100)}
	l.Queue = &Queue[*item]{
		Write: func(batch []*item) {
			var list []int
			for _, i := range batch {
				list = append(list, i.n)
			}
			l.batches <- list
			<-l.tokens
		},
		Fail: func(i *item, err error) { i.err = err },
		Fits: func(batch []*item, _ *item) bool { return len(batch) < most },
		Go:   func(f func()) bool { l.running.Go(f); return true },
	}
	return l
}

func add(l *recorder, group *Group, numbers ...int) (items []*item) {
	for _, n := range numbers {
		i := &item{n: n}
		group.Join(&i.Job)
		items = append(items, i)
	}
	l.Add(items...)
	return items
}

// TestQueue: jobs that come while a batch is written make the next ones, in order, without abandoned jobs.
func TestQueue(t *testing.T) {
	l := newRecorder(3)
	first, rest, gone := NewGroup(1), NewGroup(4), NewGroup(1)
	add(l, first, 1)
	if got := <-l.batches; !slices.Equal(got, []int{1}) {
		t.Errorf("%v", got)
	}
	add(l, rest, 2, 3)
	late := add(l, gone, 99)[0]
	add(l, rest, 4, 5)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gone.Wait(ended); err == nil || late.Done() {
		t.Errorf("an item that waits: %v", err)
	}
	for range 3 {
		l.tokens <- struct{}{}
	}
	for _, want := range [][]int{{2, 3, 4}, {5}} {
		if got := <-l.batches; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	for _, g := range []*Group{first, rest} {
		if err := g.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	l.running.Wait()
}

// TestClose: waiting jobs and later ones fail; the batch under way ends as it does.
func TestClose(t *testing.T) {
	l := newRecorder(1)
	written, waits, later := NewGroup(1), NewGroup(1), NewGroup(1)
	first := add(l, written, 1)[0]
	<-l.batches
	second := add(l, waits, 2)[0]
	l.Close()
	third := add(l, later, 3)[0]
	l.tokens <- struct{}{}
	for _, g := range []*Group{written, waits, later} {
		if err := g.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if first.err != nil || !errors.Is(second.err, ErrClosed) || !errors.Is(third.err, ErrClosed) || !first.Done() {
		t.Errorf("%v, %v, %v", first.err, second.err, third.err)
	}
	l.running.Wait()
}
