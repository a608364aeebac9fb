package gate

import (
	"hash/maphash"
	"math/rand/v2"
	"testing"
)

// blunt is a key whose hash is of little use.
type blunt int

func (k blunt) same(other blunt) bool         { return k == other }
func (k blunt) own() blunt                    { return k }
func (k blunt) hash(seed maphash.Seed) uint64 { return uint64(k%2) * numStripes * numHeads }

// Keys that share a place, or a hash, do not get in each other's way.
func TestStripe(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	st := new(stripe[blunt, int])
	seats := make(map[blunt]*seat[blunt, int])
	for range 3000 {
		k := blunt(r.IntN(30))
		hash := k.hash(maphash.Seed{})
		if got := st.find(hash, &k); got != seats[k] {
			t.Fatalf("key %d has seat %p, want %p", k, got, seats[k])
		}
		if s := seats[k]; s != nil {
			st.remove(s)
			delete(seats, k)
			continue
		}
		seats[k] = st.add(hash, &k)
	}
	for _, s := range seats {
		st.remove(s)
	}
	if *st.head(0) != nil || st.numFree > keepFree {
		t.Errorf("left: %v, kept: %d", *st.head(0), st.numFree)
	}
}
