package hub_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/internal/hub"
)

// member is a subscriber that counts what it gets.
type member struct {
	seat hub.Seat
	got  int
	// then is called by Deliver.
	then func()
}

func (s *member) Seat() *hub.Seat { return &s.seat }
func (s *member) Deliver(*hub.Message) {
	s.got++
	if s.then != nil {
		s.then()
	}
}

// A hub does what a map of sets does, however many come and go, also while a
// message is delivered.
func TestHubAgainstMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hub.New()
		model := make(map[string]map[*member]bool)
		channels := rapid.SampledFrom([]string{"a", "b", ""})
		remove := func(ch string, s *member) {
			h.Remove(s)
			if delete(model[ch], s); len(model[ch]) == 0 {
				delete(model, ch)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				for range rapid.SampledFrom([]int{1, 1, 3, 200}).Draw(t, "n") {
					s := new(member)
					h.Add(ch, s)
					if model[ch] == nil {
						model[ch] = make(map[*member]bool)
					}
					model[ch][s] = true
				}
			},
			"go": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				n := rapid.SampledFrom([]int{1, 2, 150}).Draw(t, "n")
				for s := range maps.Clone(model[ch]) {
					if n--; n < 0 {
						break
					}
					remove(ch, s)
					h.Remove(s) // sits nowhere any more
				}
			},
			"publish": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				leave := rapid.IntRange(0, 3).Draw(t, "one of so many leaves")
				served := maps.Clone(model[ch])
				i := 0
				for s := range served {
					if i++; leave > 0 && i%leave == 0 {
						s.then = func() { remove(ch, s) }
					}
				}
				h.Publish(&hub.Message{Channel: ch})
				for s := range served {
					if s.got != 1 {
						t.Fatalf("a subscriber of %d got the message %d times", len(served), s.got)
					}
					s.got = 0
				}
			},
			"": func(t *rapid.T) {
				total, seen := 0, 0
				h.Channels(func(ch string, n int) {
					if seen++; n != len(model[ch]) {
						t.Fatalf("%q has %d subscribers, want %d", ch, n, len(model[ch]))
					}
					total += n
				})
				if seen != len(model) || total != h.Subscribers() {
					t.Fatalf("%d channels with %d subscribers, want %d with %d", seen, total, len(model), h.Subscribers())
				}
				for ch, set := range model {
					for s := range set {
						if s.got != 0 {
							t.Fatalf("a subscriber of %q got what is not for it", ch)
						}
					}
				}
			},
		})
	})
}

// Delivery itself needs no memory.
func TestPublishAllocBudget(t *testing.T) {
	h, m := hub.New(), &hub.Message{Channel: "ch"}
	for range 1000 {
		h.Add("ch", new(member))
	}
	if n := testing.AllocsPerRun(10, func() { h.Publish(m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
