package feed

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestFeed: iterators get the events of their sets in order, tell when they have too many, and end with what they have.
func TestFeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var crowd Crowd[int]
		var one, two Set[int]
		narrow, wide := New(2, false, &crowd), New(2, true, &crowd)
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
		if full := crowd.Take(); !slices.Equal(full, []*Feed[int]{wide}) || wide.Room() == nil || narrow.Room() != nil {
			t.Errorf("%v are crowded", full)
		}
		two.Push(4)
		if full := crowd.Take(); len(full) != 1 {
			t.Errorf("%d are crowded", len(full))
		}
		one.End(false)
		one.Push(5)
		<-ended
		if !dropped || !slices.Equal(got, []int{1, 3}) {
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
			t.Error("a feed that has ended is crowded")
		}
		for e := range wide.Each(func() {}) {
			if e != 6 {
				t.Error(e)
			}
			break
		}
	})
}
