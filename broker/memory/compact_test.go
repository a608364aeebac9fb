package memory

import (
	"math"
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// TestCompact sets each field of a publication alone, and all of them, and the largest payloads and times that fit, and larger ones: each
// comes back.
func TestCompact(t *testing.T) {
	all := channel.Publication{Offset: 7}
	fields := reflect.ValueOf(&all).Elem()
	pubs := []*channel.Publication{{Offset: 7}, {Offset: 7, Data: []byte{}}, &all}
	for i := range fields.NumField() {
		pub := &channel.Publication{Offset: 7}
		for _, f := range []reflect.Value{reflect.ValueOf(pub).Elem().Field(i), fields.Field(i)} {
			if f.CanUint() {
				continue // the offset, and the version below
			}
			set(t, f)
		}
		pubs = append(pubs, pub)
	}
	all.Version = 3
	pubs = append(pubs, &channel.Publication{Offset: 7, Version: 3})
	for _, size := range []int{1<<sizeBits - 1, 1 << sizeBits} {
		pubs = append(pubs, &channel.Publication{Offset: 7, Data: make([]byte, size), Checked: true})
	}
	for _, at := range []int64{1<<timeBits - 1, 1 << timeBits, math.MaxInt64, -1, math.MinInt64} {
		pubs = append(pubs, &channel.Publication{Offset: 7, Data: []byte("data"), Time: at})
	}
	for _, pub := range pubs {
		k := compactOf(pub)
		if got := k.publication(7, new(channel.Publication)); !reflect.DeepEqual(got, pub) {
			t.Errorf("%s", cmp.Diff(got, pub))
		}
	}
}

// set sets a field to something that is not zero.
func set(t *testing.T, f reflect.Value) {
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Int64:
		f.SetInt(5)
	case reflect.String:
		f.SetString("text")
	case reflect.Slice:
		f.SetBytes([]byte("data"))
	case reflect.Map:
		f.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.Pointer:
		f.Set(reflect.ValueOf(&channel.ClientInfo{User: "u"}))
	default:
		t.Fatalf("a field of type %v: keep has to know it", f.Type())
	}
}

// TestCompactBudget holds what a publication takes besides its payload, with the channel's own share: in a long history, and in
// a short one, where the share of the channel is large, and the payload fills its memory but for 4 bytes.
func TestCompactBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory")
	}
	for _, tt := range []struct{ channels, size, payload, budget int }{
		{channels: 100, size: 1000, payload: 64, budget: 30},
		{channels: 10_000, size: 20, payload: 188, budget: 44},
	} {
		b := newBroker(t, ignore)
		opts := broker.PublishOptions{HistorySize: tt.size, HistoryTTL: 1 << 40}
		before := heapInUse()
		for i := range tt.channels {
			for range tt.size + 1 {
				if _, err := b.Publish(ctx, strconv.Itoa(i), &channel.Publication{Data: make([]byte, tt.payload)}, opts); err != nil {
					t.Fatal(err)
				}
			}
		}
		if each := int(heapInUse()-before)/(tt.channels*tt.size) - tt.payload; each > tt.budget {
			t.Errorf("history of %d: %d bytes besides the payload, at most %d", tt.size, each, tt.budget)
		} else {
			t.Logf("history of %d: %d bytes besides the payload", tt.size, each)
		}
		if h, err := b.History(ctx, "0", broker.HistoryFilter{Limit: -1}); err != nil || len(h.Publications) != tt.size {
			t.Errorf("%d publications, %v", len(h.Publications), err)
		}
	}
}
