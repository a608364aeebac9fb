package memory

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// TestKept sets each field of a publication alone, and all of them: each comes back.
func TestKept(t *testing.T) {
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
	for _, pub := range pubs {
		k := keep(pub)
		if got := k.publication(7, new(channel.Publication)); !cmp.Equal(got, pub) {
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

// TestKeptBudget: a publication in a full history takes 60 bytes besides its payload at most, with the
// channel's own share.
func TestKeptBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory")
	}
	const channels, size, payload = 100, 1000, 64
	b := newBroker(t, ignore)
	opts := broker.PublishOptions{HistorySize: size, HistoryTTL: 1 << 40}
	before := heapInUse()
	for i := range channels {
		for range size + 1 {
			if _, err := b.Publish(ctx, string(rune('a'+i)), &channel.Publication{Data: make([]byte, payload)}, opts); err != nil {
				t.Fatal(err)
			}
		}
	}
	if each := (heapInUse() - before) / (channels * size); each > payload+60 {
		t.Errorf("%d bytes besides the payload, at most 60", each-payload)
	} else {
		t.Logf("%d bytes besides the payload", each-payload)
	}
	if h, err := b.History(ctx, "a", broker.HistoryFilter{Limit: -1}); err != nil || len(h.Publications) != size {
		t.Errorf("%d publications, %v", len(h.Publications), err)
	}
}
