package seen

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

func TestNewest(t *testing.T) {
	var a Acked
	note := func(ch string, offset, generation uint64) {
		p := fmt.Sprint(ch, offset)
		a.Note(ch, &broker.PublishResult{Position: channel.StreamPosition{Offset: offset, Epoch: "e"}}, TextSum(p), generation)
	}
	note("a", 1, 1)
	note("b", 1, 1)
	note("a", 2, 2)
	a.Note("c", &broker.PublishResult{Suppressed: broker.SuppressVersion, Position: channel.StreamPosition{Offset: 7}}, 1, 1)
	a.Note("c", &broker.PublishResult{}, 1, 1)
	for generation, want := range [][]Publication{
		1: {{"b", "e", 1, Sum([]byte("b1"))}, {"a", "e", 1, Sum([]byte("a1"))}},
		2: {{"a", "e", 2, Sum([]byte("a2"))}, {"b", "e", 1, Sum([]byte("b1"))}},
	} {
		if got := a.Newest(uint64(generation)); !slices.Equal(got, want) {
			t.Errorf("generation %d: %v, want %v", generation, got, want)
		}
	}
	// The oldest make room.
	for i := range ackedSize {
		note("d", uint64(i+1), 2)
	}
	if got := a.Newest(2); len(got) != 1 || got[0].Channel != "d" || got[0].Offset != ackedSize {
		t.Errorf("%v", got)
	}
}
