package eventqueue

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestQueue: iterators get the events of their sets in order, tell when they have too many, and end with what they have.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var crowd Crowd[int]
		var one, two Set[int]
		narrow, wide := New("", 2, Source, &crowd, nil), New("", 2, Sources, &crowd, nil)
		one.Add(narrow)
		one.Add(wide)
		two.Add(wide)
		var got []int
		dropped, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			for e := range narrow.Each(func() { dropped = true }) {
				got = append(got, e)
			}
		}()
		one.Push(1)
		two.Push(2)
		synctest.Wait()
		one.Push(3)
		if full := crowd.Take(); !slices.Equal(full, []*Queue[int]{wide}) || wide.Room() == nil || narrow.Room() != nil {
			t.Errorf("%v are crowded", full)
		}
		two.Push(4)
		if full := crowd.Take(); len(full) != 1 {
			t.Errorf("%d are crowded", len(full))
		}
		one.End(false)
		one.Push(5)
		<-ended
		if !dropped || !slices.Equal(got, []int{1, 3}) || narrow.Handed() != 2 {
			t.Errorf("%v, dropped: %v", got, dropped)
		}
		room := wide.Room()
		if all := wide.take(); !slices.Equal(all, []int{1, 2, 3, 4}) {
			t.Errorf("%v", all)
		}
		<-room
		for range 3 {
			two.Push(6)
		}
		room = wide.Room()
		two.Remove(narrow)
		two.End(true)
		<-room
		crowd.Take()
		wide.push(7)
		if wide.Room() != nil || len(crowd.Take()) > 0 {
			t.Error("a queue that has ended is crowded")
		}
		for e := range wide.Each(func() {}) {
			if e != 6 {
				t.Error(e)
			}
			break
		}
	})
}

// TestSkip: a queue that does without events has what stands for them behind those that it has, and takes others again then.
func TestSkip(t *testing.T) {
	t.Parallel()
	var crowd Crowd[int]
	var set Set[int]
	f := New("", 2, Source, &crowd, func(left []int, e int) []int { return []int{-e} })
	set.Add(f)
	for e := range 3 {
		if f.Skip() {
			t.Error("it has no more than it should")
		}
		set.Push(e)
	}
	room := f.Room()
	if !f.Excess(1) || f.Excess(2) || !f.Skip() || f.Room() != nil || len(crowd.Take()) != 1 {
		t.Error("it is not full")
	}
	<-room
	for e := 3; e < 100; e++ {
		set.Push(e)
	}
	if got := f.take(); !slices.Equal(got, []int{0, 1, 2, -99}) || len(crowd.Take()) > 0 {
		t.Error(got)
	}
	for e := range 3 {
		set.Push(e)
	}
	if f.Skip() {
		t.Error("it is told again")
	}
	set.Push(3)
	set.End(false)
	if got := f.take(); !slices.Equal(got, []int{0, 1, 2, -3}) {
		t.Error(got)
	}
}

// TestFinish: the end of a session ends its queues behind a last event, and no others.
func TestFinish(t *testing.T) {
	t.Parallel()
	var crowd Crowd[int]
	var set Set[int]
	queues := make([]*Queue[int], 0, 3)
	for _, life := range []Life{Session, Source, Sources} {
		queues = append(queues, New("", 9, life, &crowd, nil))
		set.Add(queues[life])
	}
	set.Push(1)
	set.Finish(2)
	set.Push(3)
	for life, want := range [][]int{{1, 2}, {1, 3}, {1, 3}} {
		f := queues[life]
		if got := f.take(); !slices.Equal(got, want) || f.ended != (Life(life) == Session) {
			t.Errorf("%d: %v, ended: %v", life, got, f.ended)
		}
	}
}
