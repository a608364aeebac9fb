package hub_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
)

// taker takes batches in one frame where they have one, and keeps what it got.
type taker struct {
	membership hub.Membership
	framer     *envelope
	form       hub.Form
	got        [][]byte // messages, without envelope
	frames     int
	gaps       int // batches that did not follow
	offset     uint64
}

func (s *taker) Membership() *hub.Membership { return &s.membership }

func (s *taker) DeliverAll(b *hub.Batch) bool {
	frame := b.Frame(s.framer, s.form, math.MaxInt)
	if frame == nil {
		return false
	}
	if last, ok := b.Follows("e", s.offset); ok {
		s.offset = last
	} else {
		s.gaps++
	}
	s.take(frame)
	return true
}

func (s *taker) Deliver(d *hub.Delivery) {
	frame, err := d.Frame(s.framer, s.form)
	if err != nil {
		s.got = append(s.got, nil)
		return
	}
	s.take(frame)
}

func (s *taker) take(frame []byte) {
	s.frames++
	inner := bytes.Clone(frame[s.framer.dashes : len(frame)-1])
	if s.framer.encoding == protocol.JSON {
		s.got = append(s.got, bytes.Split(inner, []byte("\n"))...)
		return
	}
	s.got = append(s.got, inner)
}

// However messages are gathered, everybody gets the same ones in the same order,
// in as many frames as there were batches or messages.
func TestBatchFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom([]protocol.Encoding{protocol.JSON, protocol.Protobuf}).Draw(t, "encoding")
		form := rapid.SampledFrom([]hub.Form{0, hub.Compact, hub.Bare}).Draw(t, "form")
		h := hub.New(new(sendqueue.Arena))
		one := &taker{framer: &envelope{encoding: e, dashes: 3}, form: form}
		other := &taker{framer: &envelope{encoding: e, dashes: 1}, form: form}
		h.Add("ch", one)
		h.Add("ch", other)
		h.Add("alone", new(nobody))

		var want [][]byte
		single := hub.New(new(sendqueue.Arena))
		alone := &taker{framer: &envelope{encoding: e}, form: form}
		single.Add("ch", alone)
		for i := range uint64(rapid.IntRange(1, 150).Draw(t, "messages")) {
			m := &hub.Message{Channel: "ch", ID: 7, Pub: &channel.Publication{Data: payload.Draw(t, "data"), Offset: i + 1}, Epoch: "e"}
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				m = &hub.Message{Channel: "ch", Kind: hub.KindJoin, Info: &channel.ClientInfo{Client: "c"}}
			}
			h.Publish(m)
			single.Publish(m)
			single.Deliver(math.MaxInt) // one by one
		}
		for h.Deliver(rapid.IntRange(1, 5).Draw(t, "budget")) {
		}
		want = alone.got
		for _, s := range []*taker{one, other} {
			if !bytes.Equal(bytes.Join(s.got, nil), bytes.Join(want, nil)) {
				t.Fatalf("got %q, want %q", s.got, want)
			}
		}
	})
}

func TestBatchInOneFrame(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	s := &taker{framer: &envelope{encoding: protocol.JSON, dashes: 2}}
	h.Add("ch", s)
	publish := func(offset uint64, data string) {
		h.Publish(&hub.Message{Channel: "ch", Pub: &channel.Publication{Data: []byte(data), Offset: offset}, Epoch: "e"})
	}
	publish(1, `"a"`)
	publish(2, `"b"`)
	h.Deliver(math.MaxInt)
	if s.frames != 1 || len(s.got) != 2 || s.offset != 2 {
		t.Errorf("two messages: %d frames, %d messages, offset %d", s.frames, len(s.got), s.offset)
	}
	publish(3, `"c"`)
	publish(5, `"d"`)
	h.Deliver(math.MaxInt)
	if s.frames != 2 || s.gaps != 1 || s.offset != 2 {
		t.Errorf("a gap: %d frames, %d gaps, offset %d", s.frames, s.gaps, s.offset)
	}
	publish(6, `"e"`)
	publish(7, `no JSON`)
	h.Deliver(math.MaxInt)
	if s.frames != 3 || s.got[len(s.got)-1] != nil {
		t.Errorf("what cannot be encoded: %d frames, then %q", s.frames, s.got)
	}
	large := `"` + strings.Repeat("x", sendqueue.MaxGather/2) + `"`
	publish(8, large)
	publish(9, large)
	h.Deliver(math.MaxInt)
	if s.frames != 5 {
		t.Errorf("large messages: %d frames", s.frames)
	}
}
