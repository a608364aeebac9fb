package engines

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// Whatever a broker keeps, nobody writes to it again; and every publication that is
// handed out is zero.
func TestNothingKeptIsUsedAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s slabs
	kept := make(map[*channel.Publication]string)
	for round := range 2000 {
		var items []broker.BatchItem
		keep := random.IntN(3) // nobody, some, many
		for i := range random.IntN(5 * slabSize) {
			item := broker.BatchItem{Unkept: random.IntN(4*slabSize) >= keep*keep}
			switch random.IntN(4) {
			case 0: // the same as before, if that is possible
				if i > 0 {
					item.Pub = items[i-1].Pub
					break
				}
				fallthrough
			case 1: // not from here
				item.Pub = new(channel.Publication)
			default:
				item.Pub = s.next()
				if item.Pub.Data != nil || item.Pub.Version != 0 {
					t.Fatalf("round %d: got %+v", round, item.Pub)
				}
				item.Pub.Version, item.Pub.Data = uint64(round), fmt.Append(nil, round, i)
			}
			items = append(items, item)
			if !item.Unkept {
				kept[item.Pub] = string(item.Pub.Data)
			}
		}
		s.reclaim(items)
		for p, data := range kept {
			if string(p.Data) != data {
				t.Fatalf("round %d: %q became %q", round, data, p.Data)
			}
		}
	}
}

// Small batches share slabs even if everything is kept.
func TestKeptShareSlabs(t *testing.T) {
	var s slabs
	items := make([]broker.BatchItem, 3)
	seen := make(map[*channel.Publication]bool)
	batch := func() {
		for i := range items {
			items[i].Pub = s.next()
			if seen[items[i].Pub] {
				t.Fatal("handed out twice")
			}
			seen[items[i].Pub] = true
		}
		s.reclaim(items)
	}
	clear(seen)
	if n := testing.AllocsPerRun(10*slabSize, func() { clear(seen); batch() }); n > 0 { // 3 of 32
		t.Errorf("%v slabs a batch", n)
	}
	clear(seen)
	for range 100 {
		batch()
	}
	if len(seen) != 300 {
		t.Errorf("%d publications", len(seen))
	}
}

func TestUnkeptCostsNothing(t *testing.T) {
	var s slabs
	items := slices.Repeat([]broker.BatchItem{{Unkept: true}}, 5*slabSize/2)
	round := func() {
		for i := range items {
			items[i].Pub = s.next()
		}
		s.reclaim(items)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
