package redis

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	for want, n := range map[string]names{
		"p.client.ch":     {prefix: "p"},
		"p.client.{ch}":   {prefix: "p", cluster: true},
		"p.client.{2}.ch": {prefix: "p", cluster: true, partitions: 3},
	} {
		hash := uint64(0)
		for n.partitions > 0 && n.partition(hash) != 2 {
			hash = hash*31 + 7
		}
		if got := string(n.append(nil, kindClient, "ch", hash)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := part(want, "ch"); got != "ch" {
			t.Errorf("channel %q in %q", got, want)
		}
		if len(want) > nameSize(&n, "ch") {
			t.Errorf("%q is longer than expected", want)
		}
	}
	// A brace at the end may be the channel's.
	plain, cluster := names{prefix: "p"}, names{prefix: "p", cluster: true}
	for _, ch := range []string{"}", "a}", "{a}", "{}", "a{b}", ""} {
		for _, n := range []names{plain, cluster} {
			name := string(n.append(nil, kindClient, ch, 0))
			if got := part(name, ch); got != ch {
				t.Errorf("channel %q in %q, want %q", got, name, ch)
			}
		}
		refused := cluster.check(ch) != nil
		if want := ch == "" || ch[0] == '}'; refused != want || plain.check(ch) != nil {
			t.Errorf("channel %q is refused: %v", ch, refused)
		}
	}
}

func TestHashes(t *testing.T) {
	for _, ch := range []string{"", "a", "channel", "日本"} {
		h := fnv.New64a()
		h.Write([]byte(ch))
		if hashOf(ch) != h.Sum64() {
			t.Errorf("hash of %q is %d, want %d", ch, hashOf(ch), h.Sum64())
		}
	}
	// From the paper of Lamping and Veach: with one more bucket, keys stay or move to it.
	for n := 1; n < 50; n++ {
		moved := 0
		for i := range 1000 {
			hash := hashOf(fmt.Sprint(i))
			before, after := jump(hash, n), jump(hash, n+1)
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
		if got := jump(want.hash, want.n); got != want.got {
			t.Errorf("jump(%d, %d) is %d, want %d", want.hash, want.n, got, want.got)
		}
	}
	// As CLUSTER KEYSLOT says.
	for tag, want := range map[string]int{"123456789": 12739, "foo": 12182, "": 0} {
		if got := slotOf(tag); got != want {
			t.Errorf("slot of %q is %d, want %d", tag, got, want)
		}
	}
}

// TestSlab checks that strings of a slab never change.
func TestSlab(t *testing.T) {
	var m slab
	n := names{prefix: "prefix"}
	want := map[string]string{}
	for i := range 5000 {
		ch := strings.Repeat("x", i%300) + fmt.Sprint(i)
		want[m.name(&n, kindStream, ch, 0)] = "prefix.stream." + ch
		want[m.result(&n, ch, 0, "key")] = "prefix.result." + ch + ".key"
		want[m.number(uint64(i))+" "] = fmt.Sprint(i) + " "
	}
	for got, want := range want {
		if got != want {
			t.Fatalf("%q became %q", want, got)
		}
	}
	for d, want := range map[time.Duration]string{-1: "1", 0: "1", 1: "1", time.Second: "1000", 1500 * time.Microsecond: "2", 1<<63 - 1: "3153600000000"} {
		if got := m.milliseconds(d); got != want {
			t.Errorf("%v in ms: %s, want %s", d, got, want)
		}
	}
	a, b := m.epoch(), m.epoch()
	if len(a) != 8 || a == b {
		t.Errorf("epochs %q and %q", a, b)
	}
}

func TestParseReply(t *testing.T) {
	for reply, want := range map[string]string{
		"0:1:abc": "{{1 abc} }", "1:0:": "{{0 } idempotency}", "2:7:a:b": "{{7 a:b} version}",
	} {
		if got, err := parseReply(reply); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", reply, got, err, want)
		}
	}
	for _, reply := range []string{"", "0", "0:", "0:1", "0:1abc", "0::abc", "0:x:abc", "0:-1:abc", "01:2:a"} {
		if got, err := parseReply(reply); err == nil {
			t.Errorf("%q: %v", reply, got)
		}
	}
}
