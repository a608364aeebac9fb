package schema

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gyrohq/gyro/channel"
)

func TestCodec(t *testing.T) {
	info := &channel.ClientInfo{Client: "c", User: "u", ConnInfo: []byte("{}"), ChanInfo: []byte{}}
	for _, r := range []Row{
		{Channel: "ch", Kind: KindCleared},
		{Channel: "ch", Kind: KindJoin, Pub: channel.Publication{Info: info}},
		{Channel: "äö", Epoch: "e", Kind: KindPublication, Delta: true, Pub: channel.Publication{
			Offset: 1 << 60, Data: []byte("data"), Tags: map[string]string{"a": "1", "b": ""}, Time: 1_700_000_000_000, Version: 7, Score: -5, Key: "k", Info: info,
		}, Prev: &channel.Publication{Offset: 3, Key: "k", Data: []byte{}, Tags: map[string]string{"x": "y"}, Time: -1}},
		{Channel: "ch", Pub: channel.Publication{Removed: true, Key: "k"}},
	} {
		data := r.Append(nil)
		var got Row
		if err := got.Decode(data); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v, want %+v", got, err, r)
		}
		for n := range data {
			if got.Decode(data[:n]) == nil {
				t.Errorf("%d bytes of %d are enough", n, len(data))
			}
		}
		if got.Decode(append(data, 0)) == nil {
			t.Error("a byte too many is fine")
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 10_000 { // must not panic
			broken := append([]byte(nil), data...)
			broken[random.IntN(len(broken))] = byte(random.Uint32())
			_ = got.Decode(broken)
		}
	}
}
