package recovery

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

func entries(n, size int) []*channel.Publication {
	list := make([]*channel.Publication, n)
	for i := range list {
		list[i] = &channel.Publication{Key: fmt.Sprint("k", i), Offset: uint64(i), Data: fmt.Appendf(nil, `"%s"`, strings.Repeat("x", size))}
	}
	return list
}

// wire returns r as it is sent, and what a client reads.
func wire(t *testing.T, r *protocol.SubscribeResult, e protocol.Encoding) (sent string, read protocol.SubscribeResult) {
	t.Helper()
	data, err := r.AppendJSON(nil)
	if e == protocol.Protobuf {
		data = r.AppendProto(nil)
		err = read.UnmarshalProto(data)
	} else if err == nil {
		err = read.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data), read
}

// Results are the same bytes, whether a page is shared or not, and whether it was there before.
func TestShared(t *testing.T) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		for _, form := range []hub.Form{0, hub.Escaped} {
			for _, n := range []int{0, 1, 2, 50} {
				var c PageCache
				var all [3]string
				for i := range all {
					r := protocol.SubscribeResult{Cursor: "c", Epoch: "e", PublishDebounce: 5}
					if err := c.Fill(&r, PageKey{Form: form, Encoding: e}, entries(n, 10), i > 0, new(hub.Results)); err != nil {
						t.Fatal(err)
					}
					sent, read := wire(t, &r, e)
					all[i] = sent
					if len(read.State) != n || read.Cursor != "c" || read.PublishDebounce != 5 || len(r.State) > 0 && i > 0 {
						t.Errorf("%v, %d entries: %+v", e, n, read)
					}
				}
				if diff := cmp.Diff([3]string{all[0], all[0], all[0]}, all); diff != "" {
					t.Errorf("%v, %d entries:\n%s", e, n, diff)
				}
			}
		}
	}
}

// JSON clients do not get the entries of a page that they cannot read.
func TestNotJSON(t *testing.T) {
	var c PageCache
	some := []*channel.Publication{{Key: "k", Data: []byte("{")}, {Key: "l", Data: []byte("{}")}}
	for range 2 {
		var r protocol.SubscribeResult
		if err := c.Fill(&r, PageKey{}, some, true, new(hub.Results)); err != nil {
			t.Fatal(err)
		}
		if sent, read := wire(t, &r, protocol.JSON); len(read.State) != 1 || read.State[0].Key != "l" {
			t.Error(sent)
		}
	}
}

// What the cache keeps is bounded, the newest page is there, and a page is that of its key.
func TestCache(t *testing.T) {
	var c PageCache
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		k := PageKey{Channel: "m", Cursor: fmt.Sprint(random.IntN(500)), Top: channel.StreamPosition{Offset: uint64(i / 100)}}
		var r protocol.SubscribeResult
		if err := c.Fill(&r, k, entries(1, 1+random.IntN(20_000)), true, new(hub.Results)); err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, p := range c.pages {
			size += len(p)
		}
		if size != c.size || size > maxSize || len(c.pages) != len(c.order) {
			t.Fatalf("%d bytes, counted %d, in %d pages of %d", size, c.size, len(c.pages), len(c.order))
		}
		if &c.pages[k][0] != &r.StateEncoded[0] {
			t.Fatal("the newest page is not there")
		}
		if k.Top.Offset++; c.pages[k] != nil {
			t.Fatal("a page of another position")
		}
	}
	var r protocol.SubscribeResult
	if err := c.Fill(&r, PageKey{}, entries(1, maxSize), true, new(hub.Results)); err != nil || len(r.StateEncoded) < maxSize || c.pages[PageKey{}] != nil {
		t.Errorf("a page of %d bytes is kept: %v", len(r.StateEncoded), err)
	}
}
