package observe

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestClientLabels(t *testing.T) {
	warned := 0
	o := &Observer{ClientLabels: NewClientLabels([]string{"tier", "region"}, 3, func() { warned++ }), ClientNames: []string{"js"}}
	want := func(labels map[string]string, values ...string) {
		t.Helper()
		a := o.NewAgent("js", "", labels)
		if got := o.ClientLabels.Values([]string{"x"}, a); !slices.Equal(got, append([]string{"x"}, values...)) {
			t.Errorf("%v: %q, want %q", labels, got, values)
		}
		if a.Name(o.ClientNames) != "js" || a.Version() != "unversioned" {
			t.Errorf("%v: %q, %q", labels, a.Name(o.ClientNames), a.Version())
		}
	}
	want(nil, "", "")
	want(map[string]string{"tier": "free", "x": "y"}, "free", "")
	want(map[string]string{"tier": "free", "region": "eu"}, "free", "eu")
	want(map[string]string{"region": "\xffeu", "tier": strings.Repeat("x", 63) + "é"}, strings.Repeat("x", 63)+"?", "?eu")
	if warned > 0 {
		t.Error("three are within the limit")
	}
	want(map[string]string{"tier": "paid"}, OtherLabel, OtherLabel)
	want(map[string]string{"region": "eu"}, OtherLabel, OtherLabel)
	want(map[string]string{"tier": "free"}, "free", "")
	want(map[string]string{}, "", "")
	if warned != 1 {
		t.Errorf("warned %d times", warned)
	}
	if a := (&Observer{}).NewAgent("", "1", map[string]string{"tier": "free"}); a != agentVersioned {
		t.Errorf("%b although labels do not count", a)
	}
}

// TestMostLabels: the limit of numbers holds, whatever the limit of the program is, also if clients come at once.
func TestMostLabels(t *testing.T) {
	o := &Observer{ClientLabels: NewClientLabels([]string{"a", "b", "c", "d", "e"}, 1e6, nil)}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range MaxLabelSets {
				text := strconv.Itoa(i)
				a := o.NewAgent("", "", map[string]string{"d": text, "e": "no key"})
				if got := o.ClientLabels.Values(nil, a); len(got) != MaxClientLabels || got[3] != text {
					t.Errorf("%d: %q", i, got)
				}
			}
		})
	}
	all.Wait()
	if got := o.ClientLabels.Values(nil, o.NewAgent("", "", map[string]string{"d": "more"})); got[0] != OtherLabel {
		t.Errorf("%q", got)
	}
}

func TestClientLabelsAllocateNothing(t *testing.T) {
	o := &Observer{ClientLabels: NewClientLabels([]string{"tier"}, 10, nil)}
	labels := map[string]string{"tier": "free"}
	if n := testing.AllocsPerRun(100, func() { o.NewAgent("js", "1", labels) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
