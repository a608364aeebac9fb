package losses

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/channel"
)

func note(a *Acked, ch, epoch string, offset, generation uint64, verified bool) {
	a.Note(ch, format.Hash(ch), &broker.PublishResult{Position: channel.StreamPosition{Offset: offset, Epoch: epoch}},
		TextSum(fmt.Sprint(ch, epoch, offset)), generation, verified)
}

func all(a *Acked) []Acknowledged {
	list := a.All()
	slices.SortFunc(list, func(x, y Acknowledged) int { return cmp.Compare(x.Channel, y.Channel) })
	return list
}

func TestAcked(t *testing.T) {
	var a Acked
	if got := a.Known("a", format.Hash("a")); got != (Known{}) || a.All() != nil {
		t.Errorf("%+v is known of nothing", got)
	}
	a.Note("c", 1, &broker.PublishResult{Suppressed: broker.SuppressVersion, Position: channel.StreamPosition{Offset: 7}}, 1, 1, true)
	a.Note("c", 1, &broker.PublishResult{}, 1, 1, true)
	for _, step := range []struct {
		epoch              string
		offset, generation uint64
		verified           bool
		want               Known
	}{
		{"e", 2, 1, true, Known{"e", "", 2}},
		{"e", 1, 1, true, Known{"e", "", 2}},  // answers overtake each other
		{"e", 9, 2, false, Known{"e", "", 2}}, // it is not known yet whether the other data have 2
		{"e", 10, 2, true, Known{"e", "", 10}},
		{"f", 3, 2, true, Known{"f", " e ", 3}},
		{"e", 11, 2, true, Known{"f", " e ", 3}}, // overtaken
		{"f", 4, 2, true, Known{"f", " e ", 4}},
	} {
		note(&a, "a", step.epoch, step.offset, step.generation, step.verified)
		if got := a.Known("a", format.Hash("a")); got != step.want {
			t.Fatalf("%+v is known after %+v", got, step)
		}
	}
	p := Acknowledged{Publication{"a", "f", 4, TextSum("af4")}, " e "}
	if got := all(&a); !slices.Equal(got, []Acknowledged{p}) {
		t.Errorf("%v", got)
	}
	note(&a, "b", "e", 1, 1, true)
	moved := func(ch, from, to string, offset uint64, stale string) {
		a.Moved(format.Hash(ch), &Publication{Channel: ch, Epoch: from}, to, offset, stale)
	}
	moved("a", "e", "g", 7, "") // of another life
	moved("b", "e", "g", 7, "")
	if got := all(&a); !slices.Equal(got, []Acknowledged{p, {Publication{"b", "g", 7, 0}, " e "}}) {
		t.Errorf("%v", got)
	}
	if got := a.Known("b", format.Hash("b")); got != (Known{"g", " e ", 7}) {
		t.Errorf("%+v", got)
	}
	moved("b", "g", "h", 7, "")
	moved("b", "h", "i", 8, "e") // the first epoch was there again
	if got := a.Known("b", format.Hash("b")); got != (Known{"i", " e h g ", 8}) {
		t.Errorf("%+v", got)
	}
}

// TestAckedBound: what was used last stays, and there is a bound.
func TestAckedBound(t *testing.T) {
	var a Acked
	for i := range 10 * setCount * setSize {
		note(&a, fmt.Sprint(i), "e", 1, 1, true)
		note(&a, "busy", "e", uint64(i+1), 1, true)
	}
	if got := a.Known("busy", format.Hash("busy")); got.Offset != 10*setCount*setSize {
		t.Errorf("%+v", got)
	}
	if n := len(a.All()); n > setCount*setSize || n < setCount*setSize*9/10 {
		t.Errorf("%d channels", n)
	}
}

// TestEpochs: the last eight are remembered, each once and whole.
func TestEpochs(t *testing.T) {
	var list Epochs
	if list.Has("") || list.Has("e0") {
		t.Error("an empty list has an epoch")
	}
	for i := range 10 {
		list = list.With(fmt.Sprint("e", i))
	}
	if list != " e9 e8 e7 e6 e5 e4 e3 e2 " || !list.Has("e2") || list.Has("e1") || list.Has("e") || list.Has("") {
		t.Errorf("%q", list)
	}
	if list = list.With("e4"); list != " e4 e9 e8 e7 e6 e5 e3 e2 " {
		t.Errorf("%q", list)
	}
	if list = list.Without("e9").Without("e2").Without("e1"); list != " e4 e8 e7 e6 e5 e3 " {
		t.Errorf("%q", list)
	}
}

// TestNoStream: a channel that the node is not subscribed to has no stream here.
func TestNoStream(t *testing.T) {
	var s *Stream
	s.Read(channel.StreamPosition{Epoch: "e", Offset: 1})
	s.Renewed(time.Hour, 0)
	s.Confirm(nil)
	if k := s.Known(); k != (Known{}) || s.Lives(time.Now(), 0) {
		t.Errorf("knows %+v", k)
	}
}

// TestLives: the life of a position is renewed after an eighth of it, and after an hour at the latest.
func TestLives(t *testing.T) {
	s := NewStream("ch")
	for ttl, want := range map[time.Duration]time.Duration{time.Minute: time.Minute / 8, 8 * time.Hour: time.Hour, 720 * time.Hour: time.Hour} {
		now := time.Now()
		s.Renewed(ttl, 1)
		if !s.Lives(now.Add(want-time.Second), 1) || s.Lives(now.Add(want+time.Minute), 1) || s.Lives(now, 2) {
			t.Errorf("a life of %v is not renewed after %v", ttl, want)
		}
	}
}
