package memory

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/channel"
)

func change(t testing.TB, b *Broker, ch string, pub *channel.Publication, opts channel.MapOptions) {
	t.Helper()
	if result, err := b.Change(ctx, ch, pub, opts); err != nil || result.Suppressed != "" {
		t.Fatal(result, err)
	}
}

// An ephemeral map is gone with its last entry, and does not make the streams of other channels begin anew.
func TestEphemeralMapsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, ignore)
		opts := channel.MapOptions{KeyTTL: time.Minute}
		const other = "other"
		epoch := func() string {
			s, err := b.State(ctx, other, channel.StateFilter{})
			if err != nil {
				t.Fatal(err)
			}
			return s.Top.Epoch
		}
		before := epoch()
		for i, n := 0, 0; n <= maxEnded; i++ {
			name := fmt.Sprint("map", i)
			if !sameStripe(b, name, other) {
				continue
			}
			n++
			change(t, b, name, &channel.Publication{Key: "a"}, opts)
			change(t, b, name, &channel.Publication{Key: "a", Removed: true}, opts)
		}
		if c, _, scheduled := b.size(); c != 0 || scheduled != 0 {
			t.Errorf("%d channels, %d scheduled", c, scheduled)
		}
		change(t, b, "map", &channel.Publication{Key: "last"}, opts)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if c, _, scheduled := b.size(); c != 0 || scheduled != 0 {
			t.Errorf("after the expiry: %d channels, %d scheduled", c, scheduled)
		}
		if after := epoch(); after != before {
			t.Errorf("epoch %s of another channel became %s", before, after)
		}
	})
}

func sameStripe(b *Broker, one, other string) bool {
	_, s := b.locate(one)
	_, t := b.locate(other)
	return s == t
}

// An entry takes at most 250 bytes besides its key and its value.
func TestEntryBudget(t *testing.T) {
	const n, keySize, dataSize, most = 50_000, 16, 64, 250
	b := newBroker(t, ignore)
	opts := channel.MapOptions{KeyTTL: time.Hour, StreamSize: 1, StreamTTL: time.Hour}
	before := heapInUse()
	for i := range n {
		change(t, b, "map", &channel.Publication{Key: fmt.Sprintf("%0*d", keySize, i), Data: make([]byte, dataSize)}, opts)
	}
	each := (heapInUse()-before)/n - keySize - dataSize
	t.Logf("%d bytes each", each)
	if each > most && !raceEnabled {
		t.Errorf("an entry takes %d bytes besides key and value, at most %d", each, most)
	}
}

// Setting an entry again costs its value alone.
func TestChangeAllocs(t *testing.T) {
	b := newBroker(t, ignore)
	opts := channel.MapOptions{KeyTTL: time.Hour, StreamSize: 10, StreamTTL: time.Hour}
	pubs := make([]channel.Publication, 1100)
	for i := range pubs {
		pubs[i] = channel.Publication{Key: "key", Data: []byte("{}")}
	}
	next := 0
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = b.Change(ctx, "map", &pubs[next], opts)
		next++
	}); n > 0 && !raceEnabled {
		t.Errorf("%.1f allocations for a change", n)
	}
}
