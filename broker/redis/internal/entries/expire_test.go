package entries

import (
	"maps"
	"testing"
	"time"
)

// TestGiveBack: while maps could not be registered, others were changed, and the same ones again. None is
// forgotten, and the first key to expire decides when a map is looked at.
func TestGiveBack(t *testing.T) {
	at := func(seconds int) look { return look{due: time.Unix(int64(seconds), 0)} }
	l := &looks{maps: map[string]look{"sooner": at(1), "later": at(9), "new": at(5)}}
	l.giveBack(map[string]look{"sooner": at(4), "later": at(4), "old": at(3)})
	want := map[string]look{"sooner": at(1), "later": at(4), "new": at(5), "old": at(3)}
	if !maps.Equal(l.maps, want) {
		t.Errorf("%v, want %v", l.maps, want)
	}
}
