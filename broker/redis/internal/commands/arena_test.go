package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/format"
)

// TestArena checks that strings of an arena never change.
func TestArena(t *testing.T) {
	var m Arena
	n := format.Names{Prefix: "prefix"}
	want := map[string]string{}
	for i := range 5000 {
		ch := strings.Repeat("x", i%300) + fmt.Sprint(i)
		want[m.Name(&n, format.Stream, ch, 0)] = "prefix.stream." + ch
		want[m.Result(&n, ch, 0, "key")] = "prefix.result." + ch + ".key"
		want[m.Number(uint64(i))+" "] = fmt.Sprint(i) + " "
	}
	for got, want := range want {
		if got != want {
			t.Fatalf("%q became %q", want, got)
		}
	}
	for d, want := range map[time.Duration]string{-1: "1", 0: "1", 1: "1", time.Second: "1000", 1500 * time.Microsecond: "2", 1<<63 - 1: "3153600000000"} {
		if got := m.Milliseconds(d); got != want {
			t.Errorf("%v in ms: %s, want %s", d, got, want)
		}
	}
	a, b := m.Epoch(), m.Epoch()
	if len(a) != 8 || a == b {
		t.Errorf("epochs %q and %q", a, b)
	}
}
