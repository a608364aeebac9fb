package enginekit

import (
	"testing"
	"time"

	"github.com/gyrohq/gyro/channel"
)

func TestStamp(t *testing.T) {
	now := time.UnixMilli(1795285627821)
	for _, c := range []struct{ before, want channel.Publication }{
		{channel.Publication{}, channel.Publication{Time: now.UnixMilli()}},
		{channel.Publication{Offset: 7, Time: 1}, channel.Publication{Time: 1}},
	} {
		pub := c.before
		Stamp(&pub, now)
		if pub.Offset != c.want.Offset || pub.Time != c.want.Time {
			t.Errorf("offset %d, time %d of %+v", pub.Offset, pub.Time, c.before)
		}
	}
}

func TestPositiveOr(t *testing.T) {
	if PositiveOr(3, 7) != 3 || PositiveOr(0, 7) != 7 || PositiveOr(-time.Second, time.Minute) != time.Minute {
		t.Error("the wrong value")
	}
}

func TestAppendEpoch(t *testing.T) {
	for random, want := range map[uint64]string{0: "aaaaaaaa", 51: "Zaaaaaaa", 52: "abaaaaaa", 1<<64 - 1: "p0"} {
		got := string(AppendEpoch([]byte("x"), random))
		if len(got) != 1+EpochSize || got[0] != 'x' || want != "p0" && got[1:] != want {
			t.Errorf("%q of %d, want %q", got, random, want)
		}
	}
	a, b := AppendEpoch(nil, 1<<63), AppendEpoch(nil, 1<<62)
	if string(a) == string(b) {
		t.Errorf("%q twice", a)
	}
}
