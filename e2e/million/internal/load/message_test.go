//go:build linux

package load

import (
	"testing"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/stamp"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

func encoded(t testing.TB, e protocol.Encoding, replies ...*protocol.Reply) (frame []byte) {
	t.Helper()
	for i, r := range replies {
		if e == protocol.JSON && i > 0 {
			frame = append(frame, '\n')
		}
		var err error
		if frame, err = codec.For(e).AppendReply(frame, r); err != nil {
			t.Fatal(err)
		}
	}
	return frame
}

func published(ch string, number uint64) *protocol.Reply {
	data := stamp.Stamp{Number: number, Due: 7}.Append(nil, 100)
	return &protocol.Reply{Push: &protocol.Push{Channel: ch, Pub: &protocol.Publication{Data: data, Offset: number + 1}}}
}

// TestDecode: frames with publications alone are decoded once, and are not mixed up with others.
func TestDecode(t *testing.T) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		d, c := newDecoder(), codec.ForClient(e)
		two := encoded(t, e, published("crowd:3", 4), published("crowd:3", 5))
		for range 3 {
			for number := range uint64(50) {
				list, err := d.decode(c, encoded(t, e, published("one:7", number)))
				want := publication{plan.At(plan.One, 7), stamp.Stamp{Number: number, Due: 7}, number + 1, true}
				if err != nil || len(list) != 1 || list[0].reply != nil || list[0].pub != want {
					t.Fatalf("%v: %+v, not %+v: %v", e, list, want, err)
				}
			}
			list, err := d.decode(c, two)
			if err != nil || len(list) != 2 || list[0].pub.stamp.Number != 4 || list[1].pub.stamp.Number != 5 {
				t.Fatalf("%v: %+v %v", e, list, err)
			}
			mixed := encoded(t, e, published("crowd:3", 6), &protocol.Reply{ID: 2, Subscribe: &protocol.SubscribeResult{Offset: 6}})
			if list, err = d.decode(c, mixed); err != nil || len(list) != 2 || list[1].reply == nil || list[1].reply.Subscribe.Offset != 6 {
				t.Fatalf("%v: %+v %v", e, list, err)
			}
		}
		if allocs := testing.AllocsPerRun(100, func() {
			if _, err := d.decode(c, two); err != nil {
				t.Error(err)
			}
		}); allocs > 0 {
			t.Errorf("%v: %v allocations for a frame that was seen before", e, allocs)
		}
		if _, err := d.decode(c, []byte("\xff")); err == nil {
			t.Errorf("%v: nonsense is decoded", e)
		}
		for _, foreign := range []*protocol.Reply{published("chat:1", 1), {Push: &protocol.Push{Channel: "one:1", Pub: &protocol.Publication{Data: []byte(`{}`)}}}} {
			if list, err := d.decode(c, encoded(t, e, foreign)); err != nil || list[0].pub.known {
				t.Errorf("%v: %+v is taken for one of this run: %v", e, list, err)
			}
		}
	}
}
