package metrics

import (
	"runtime"
	"sync"
)

// stripes are copies of the same counters, so that goroutines hardly ever wait for each other, nor for a scrape, which
// adds all copies up.
type stripes[T any] []stripe[T]

type stripe[T any] struct {
	sync.Mutex
	counts T
	_      [64]byte // the next one is on another cache line
}

func newStripes[T any]() stripes[T] { return make(stripes[T], runtime.GOMAXPROCS(0)) }

func (s stripes[T]) lock() *stripe[T] {
	for i := range s {
		if s[i].TryLock() {
			return &s[i]
		}
	}
	s[0].Lock()
	return &s[0]
}

func (s stripes[T]) each(f func(*T)) {
	for i := range s {
		s[i].Lock()
		f(&s[i].counts)
		s[i].Unlock()
	}
}
