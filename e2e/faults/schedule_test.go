package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

type mishap struct {
	name string
	// on is the thing that it happens to: "redis", "nats", "net" or "node", which are chosen equally often; "" for all.
	// each: it happens to one node's alone, so others may have the same at the time. No thing has two mishaps at a time.
	on   string
	each bool
	// Its length is random: at least shortest and a tenth of longest.
	shortest, longest time.Duration
	// loses: streams may be lost, so subscribers may be told.
	loses bool
	// begin and end may be nil. i is the number of the node or server.
	begin, end func(t *testing.T, i int)
}

type step struct {
	*mishap
	number int
	i      int // node or server
	at     time.Duration
	lasts  time.Duration
	// When it began and ended, since the start of the schedule.
	came, went time.Duration
}

func (s *step) String() string {
	what := s.name
	if strings.Contains(what, "%d") {
		what = fmt.Sprintf(s.name, s.i)
	}
	line := fmt.Sprintf("%2d. at %4.2fs for %4.2fs: %s", s.number, s.at.Seconds(), s.lasts.Seconds(), what)
	if s.came > 0 {
		line += fmt.Sprintf(" (%.2fs to %.2fs)", s.came.Seconds(), s.went.Seconds())
	}
	return line
}

func (m *mishap) things(i, of int) (list []string) {
	switch {
	case m.on == "":
		return []string{""}
	case m.each:
		return []string{fmt.Sprint(m.on, i)}
	case m.on == "net" || m.on == "node":
		for i := range of {
			list = append(list, fmt.Sprint(m.on, i))
		}
		return list
	}
	return []string{m.on}
}

// schedule makes the same n steps for a seed. Half of them begin while others last.
func schedule(seed uint64, mishaps []mishap, of, n int) []*step {
	r := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high time.Duration) time.Duration {
		part := r.Float64()
		return (low + time.Duration(part*part*float64(high-low))).Round(10 * time.Millisecond)
	}
	groups := make(map[string][]*mishap)
	for i := range mishaps {
		groups[mishaps[i].on] = append(groups[mishaps[i].on], &mishaps[i])
	}
	kinds := slices.Sorted(maps.Keys(groups))
	var steps []*step
	busy := make(map[string]time.Duration) // until when
	at, over := time.Duration(0), time.Duration(0)
	for len(steps) < n {
		group := groups[kinds[r.IntN(len(kinds))]]
		m := group[r.IntN(len(group))]
		s := &step{mishap: m, number: len(steps) + 1, i: r.IntN(of), lasts: between(max(m.shortest, m.longest/10), m.longest)}
		at += between(100*time.Millisecond, time.Second)
		if r.IntN(2) == 0 {
			at = max(at, over+between(100*time.Millisecond, time.Second))
		}
		things := m.things(s.i, of)
		for thing, until := range busy {
			if m.on == "" || thing == "" || slices.Contains(things, thing) {
				at = max(at, until+100*time.Millisecond)
			}
		}
		s.at = at
		for _, thing := range things {
			busy[thing] = s.at + s.lasts
		}
		over = max(over, s.at+s.lasts)
		steps = append(steps, s)
	}
	return steps
}

func play(t *testing.T, steps []*step) {
	type event struct {
		at   time.Duration
		do   func(t *testing.T, i int)
		step *step
		real *time.Duration
	}
	var events []event
	for _, s := range steps {
		events = append(events, event{s.at, s.begin, s, &s.came}, event{s.at + s.lasts, s.end, s, &s.went})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	start := time.Now()
	late := time.Duration(0) // how long events took so far, by which all later ones are delayed
	for _, e := range events {
		time.Sleep(time.Until(start.Add(e.at + late)))
		*e.real = time.Since(start)
		late = max(late, *e.real-e.at)
		if e.do != nil {
			e.do(t, e.step.i)
		}
	}
}

func lines(steps []*step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// TestSchedule: a seed always makes the same schedule, in which no thing has two mishaps at a time.
func TestSchedule(t *testing.T) {
	t.Parallel()
	const nodes = 3
	mishaps := []mishap{
		{name: "one", on: "redis", longest: time.Second}, {name: "net", on: "net", shortest: time.Second, longest: 2 * time.Second},
		{name: "net %d", on: "net", each: true, longest: time.Second}, {name: "node %d", on: "node", each: true, longest: 9 * time.Second},
		{name: "alone", longest: time.Second},
	}
	different := map[string]bool{}
	together := 0
	for seed := range uint64(200) {
		steps := schedule(seed, mishaps, nodes, 8)
		if again := schedule(seed, mishaps, nodes, 8); lines(again) != lines(steps) {
			t.Fatalf("seed %d made\n%sand then\n%s", seed, lines(steps), lines(again))
		}
		different[lines(steps)] = true
		for k, s := range steps {
			for _, before := range steps[:k] {
				if before.at+before.lasts <= s.at {
					continue
				}
				together++
				clash := s.on == "" || before.on == "" || slices.ContainsFunc(s.things(s.i, nodes), func(thing string) bool {
					return slices.Contains(before.things(before.i, nodes), thing)
				})
				if clash || s.at < before.at {
					t.Fatalf("seed %d: steps %d and %d clash in\n%s", seed, before.number, s.number, lines(steps))
				}
			}
		}
	}
	if len(different) != 200 || together < 200 {
		t.Errorf("%d different schedules of 200 seeds, %d steps during another", len(different), together)
	}
}
