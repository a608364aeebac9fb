package position

import (
	"testing"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
)

func publication(epoch string, offset, prev uint64) *hub.Delivery {
	m := &hub.Message{Kind: hub.KindPublication, Epoch: epoch, Pub: &channel.Publication{Offset: offset}}
	if prev > 0 {
		m.Prev = &channel.Publication{Offset: prev}
	}
	return &hub.Delivery{Message: m}
}

func TestTake(t *testing.T) {
	for _, tt := range []struct {
		name      string
		epoch     string
		offset    uint64
		want      Step
		wantEpoch string
		wantAt    uint64
	}{
		{"next", "e", 8, Next, "e", 8},
		{"the same", "e", 7, Past, "e", 7},
		{"older", "e", 1, Past, "e", 7},
		{"gap", "e", 9, Gap, "e", 7},
		{"another stream", "f", 8, Gap, "e", 7},
	} {
		p := Position{Offset: 7, Epoch: "e", Positioned: true}
		if got := p.Take(publication(tt.epoch, tt.offset, 0), new(hub.Rounds)); got != tt.want || p.Epoch != tt.wantEpoch || p.Offset != tt.wantAt {
			t.Errorf("%s: %d, at %d of %q", tt.name, got, p.Offset, p.Epoch)
		}
	}
	var p Position // of an engine that has told no epoch yet
	if got := p.Take(publication("e", 1, 0), new(hub.Rounds)); got != Next || p.Epoch != "e" {
		t.Errorf("first of an unknown stream: %d in %q", got, p.Epoch)
	}
}

// TestCheck: a position is compared with a top only if it has not moved since the top was read.
func TestCheck(t *testing.T) {
	var rounds hub.Rounds
	top := func(epoch string, offset uint64) *hub.Message {
		return &hub.Message{Kind: hub.KindCheck, Epoch: epoch, Pub: &channel.Publication{Offset: offset}, Round: rounds.Begin()}
	}
	p := Position{Offset: 7, Epoch: "e", Positioned: true}
	for _, m := range []*hub.Message{top("e", 8), top("e", 6), top("f", 7)} {
		if p.Check(m) {
			t.Errorf("right at %d of %q", m.Pub.Offset, m.Epoch)
		}
	}
	right := top("e", 7)
	if !p.Check(right) {
		t.Error("wrong at its top")
	}
	right.Pub.Offset = 9
	if !p.Check(right) {
		t.Error("compared twice in a round")
	}
	late := top("e", 9)
	if p.Take(publication("e", 8, 0), &rounds); !p.Check(late) {
		t.Error("compared although it has moved since")
	}
	late = top("e", 9)
	if p.Confirm(rounds.Now()); !p.Check(late) {
		t.Error("compared although it was confirmed since")
	}
	p.Positioned = false
	if !p.Check(top("f", 1)) {
		t.Error("compared without a position")
	}
}

// TestEncode: a patch is sent only to a client that has what it builds on.
func TestEncode(t *testing.T) {
	p := Position{Form: hub.Escaped}
	for _, step := range []struct {
		offset, prev uint64
		received     int // before; < 0: nothing
		patch        bool
	}{
		{5, 4, -1, false}, // the first
		{6, 5, -1, true},
		{7, 0, -1, false}, // without a base
		{8, 7, 0, false},  // behind a publication that is not in the stream
		{9, 8, -1, true},
		{11, 10, -1, false}, // a filter dropped one
		{21, 20, 20, true},  // recovered up to 20
	} {
		if step.received >= 0 {
			p.Received(uint64(step.received))
		}
		if got := p.Encode(publication("e", step.offset, step.prev)); got&hub.Patched != 0 != step.patch {
			t.Errorf("%+v: form %b", step, got)
		}
	}
	plain := Position{Form: hub.Compact}
	for offset := range uint64(3) {
		if got := plain.Encode(publication("e", offset+1, offset)); got != hub.Compact {
			t.Errorf("form %b without deltas", got)
		}
	}
}

func TestBuffer(t *testing.T) {
	var b Buffer
	for i := range uint64(maxBuffered) {
		if !b.Keep(publication("e", i%3, 0).Message) {
			t.Fatalf("message %d is refused", i)
		}
	}
	if b.Keep(publication("e", 1, 0).Message) || len(b) != maxBuffered {
		t.Errorf("%d messages are kept", len(b))
	}
	b = append(b[:3:3], &hub.Message{Kind: hub.KindJoin}, publication("f", 9, 0).Message)
	var got []channel.StreamPosition
	for at := range b.Positions {
		got = append(got, at)
	}
	if len(got) != 3 || got[0].Offset != 1 || got[2] != (channel.StreamPosition{Offset: 9, Epoch: "f"}) {
		t.Errorf("%+v", got)
	}
	for at := range b.Positions {
		if at.Offset != 1 {
			t.Error("goes on after its end")
		}
		break
	}
}
