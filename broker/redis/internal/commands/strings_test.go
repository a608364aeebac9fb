package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/format"
)

// TestStrings checks that strings never change.
func TestStrings(t *testing.T) {
	var text Strings
	n := format.Names{Prefix: "prefix"}
	want := map[string]string{}
	for i := range 5000 {
		ch := strings.Repeat("x", i%300) + fmt.Sprint(i)
		want[text.Name(&n, format.Stream, ch, 0)] = "prefix.stream." + ch
		want[text.Result(&n, ch, 0, "key")] = "prefix.result." + ch + ".key"
		want[text.Number(uint64(i))+" "] = fmt.Sprint(i) + " "
	}
	for got, want := range want {
		if got != want {
			t.Fatalf("%q became %q", want, got)
		}
	}
	for d, want := range map[time.Duration]string{-1: "1", 0: "1", 1: "1", time.Second: "1000", 1500 * time.Microsecond: "2", 1<<63 - 1: "3153600000000"} {
		if got := text.Milliseconds(d); got != want {
			t.Errorf("%v in ms: %s, want %s", d, got, want)
		}
	}
	a, b := text.Epoch(), text.Epoch()
	if len(a) != 8 || a == b {
		t.Errorf("epochs %q and %q", a, b)
	}
}
