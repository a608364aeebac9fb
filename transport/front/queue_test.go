package front

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueue compares two queues with slices.
func TestQueue(t *testing.T) {
	queues := [queueCount]queue{{which: 0}, {which: 1}}
	var want [queueCount][]*loopConn
	for range 10_000 {
		n := rand.IntN(queueCount)
		l := &queues[n]
		if at := rand.IntN(20); at < len(want[n]) {
			o := want[n][at]
			l.remove(o)
			want[n] = slices.Delete(want[n], at, at+1)
		} else {
			o := new(loopConn)
			if m := 1 - n; len(want[m]) > 0 && !slices.Contains(want[n], want[m][0]) {
				o = want[m][0] // in both
			}
			l.add(o)
			want[n] = append(want[n], o)
		}
		var got []*loopConn
		for o := l.oldest; o != nil; o = l.after(o) {
			got = append(got, o)
		}
		if !slices.Equal(got, want[n]) || len(got) > 0 && l.newest != got[len(got)-1] || len(got) == 0 && l.newest != nil {
			t.Fatalf("got %v, want %v", got, want[n])
		}
	}
}
