// Package random makes random numbers and hashes that are no secrets, for pauses, identifiers and tables. A simulation
// sets their source, so that a run can be repeated.
package random

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
)

// Source replaces chance. Any goroutine may call its functions.
type Source struct {
	Uint64  func() uint64
	Float64 func() float64
	Hash    func(text string) uint64
	// Stream makes a Float64 for one owner, whose numbers do not depend on what others draw.
	Stream func() func() float64
}

var (
	source atomic.Pointer[Source]
	seed   = maphash.MakeSeed()

	process = rand.Uint64()
)

// Use replaces the source until restore is called.
func Use(s Source) (restore func()) {
	before := source.Swap(&s)
	return func() { source.Store(before) }
}

// Uint64 returns any number.
func Uint64() uint64 {
	if s := source.Load(); s != nil {
		return s.Uint64()
	}
	return rand.Uint64()
}

// Hash returns the hash of a text. Each process has other hashes, so an attacker cannot prepare many texts of one hash.
func Hash(text string) uint64 {
	if s := source.Load(); s != nil {
		return s.Hash(text)
	}
	return maphash.String(seed, text)
}

// Float64 returns a number from 0 on, below 1.
func Float64() float64 {
	if s := source.Load(); s != nil {
		return s.Float64()
	}
	return rand.Float64()
}

// Stream returns a Float64 for one owner.
func Stream() func() float64 {
	if s := source.Load(); s != nil {
		return s.Stream()
	}
	return Float64
}

// N returns a number from 0 on, below n, which is positive.
func N[T ~int | ~int64 | ~uint64](n T) T { return T(Float64() * float64(n)) }

// Process returns the same number at each call, and another one in each process.
func Process() uint64 {
	if s := source.Load(); s != nil {
		return s.Hash("process")
	}
	return process
}
