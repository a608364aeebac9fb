package format

import (
	"fmt"
	"hash/fnv"
	"testing"
)

func TestHashes(t *testing.T) {
	for _, ch := range []string{"", "a", "channel", "日本"} {
		h := fnv.New64a()
		h.Write([]byte(ch))
		if Hash(ch) != h.Sum64() {
			t.Errorf("hash of %q is %d, want %d", ch, Hash(ch), h.Sum64())
		}
	}
	// From the paper of Lamping and Veach: with one more bucket, keys stay or move to it.
	for n := 1; n < 50; n++ {
		moved := 0
		for i := range 1000 {
			hash := Hash(fmt.Sprint(i))
			before, after := Jump(hash, n), Jump(hash, n+1)
			if before < 0 || before >= n || after != before && after != n {
				t.Fatalf("%d is in bucket %d of %d and %d of %d", hash, before, n, after, n+1)
			}
			if after != before {
				moved++
			}
		}
		if expected := 1000 / (n + 1); moved < expected/2-20 || moved > 2*expected+20 {
			t.Errorf("%d of 1000 keys moved to the bucket %d", moved, n)
		}
	}
	// Values that other implementations give.
	for _, want := range []struct {
		hash   uint64
		n, got int
	}{{1, 1, 0}, {42, 57, 43}, {0xDEAD10CC, 1, 0}, {0xDEAD10CC, 666, 361}, {256, 1024, 520}} {
		if got := Jump(want.hash, want.n); got != want.got {
			t.Errorf("Jump(%d, %d) is %d, want %d", want.hash, want.n, got, want.got)
		}
	}
	// As CLUSTER KEYSLOT says.
	for tag, want := range map[string]int{"123456789": 12739, "foo": 12182, "": 0} {
		if got := slotOf(tag); got != want {
			t.Errorf("slot of %q is %d, want %d", tag, got, want)
		}
	}
}

// However a Cluster deals out its slots in sixteenths, each node has some of the keys.
func TestSpread(t *testing.T) {
	for i, key := range Spread() {
		if part := slotOf(key) / (16384 / 16); part != i {
			t.Errorf("key %q is in sixteenth %d, want %d", key, part, i)
		}
	}
}
