package position

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
)

// Position is the position in a stream that a client has reached. It decides how publications are encoded for the
// client.
type Position struct {
	// Offset and Epoch are tracked if Positioned is set.
	Offset uint64
	Epoch  string
	// base is the offset of the publication that the client received last; 0 if the next one must be sent in full.
	base uint64
	// round of checks when the position last moved or was found right.
	round uint32

	Positioned bool
	// Keyed is set for maps: the client has the value of each key, and a patch builds on that.
	Keyed bool
	Form  hub.Form
}

// Reached returns the position that the client has reached, if it has one.
func (p *Position) Reached() (positioned bool, offset uint64, epoch string) {
	if p.Positioned {
		return true, p.Offset, p.Epoch
	}
	return false, 0, ""
}

// Step is what follows from a publication for a subscription.
type Step uint8

const (
	Next Step = iota // it follows the position
	Past             // the position is at it or behind it
	Gap              // something before it was lost, or it is of another stream
)

// Take compares a publication with the position, which moves if it is the next.
func (p *Position) Take(m *hub.Delivery, rounds *hub.Rounds) Step {
	if m.Epoch != p.Epoch {
		if p.Epoch != "" {
			return Gap
		}
		p.Epoch = m.Epoch
	}
	if offset := m.Pub.Offset; offset != p.Offset+1 {
		if offset > p.Offset {
			return Gap
		}
		return Past
	}
	p.Offset, p.round = m.Pub.Offset, rounds.Now()
	return Next
}

// Encode returns the form for a publication that is sent now: a patch if the client has its base.
func (p *Position) Encode(m *hub.Delivery) hub.Form {
	if p.Form&hub.Escaped == 0 {
		return p.Form
	}
	form := p.Form
	if m.Prev != nil && (p.Keyed || p.base != 0 && m.Prev.Offset == p.base) {
		form |= hub.Patched
	}
	p.base = m.Pub.Offset
	return form
}

// EncodeFiltered is Encode for a subscriber with a filter, which may lack the publication before: on is the base for
// Delivery.FrameOn. had reports whether the subscriber of a map got a publication with these tags.
func (p *Position) EncodeFiltered(m *hub.Delivery, member *hub.Membership, had func(tags map[string]string) bool) (form hub.Form, on *hub.Base) {
	if p.Form&hub.Escaped == 0 {
		return p.Form, nil
	}
	switch {
	case !p.Keyed:
		form, on = m.Resume(member, p.base)
	case m.Prev != nil && had(m.Prev.Tags):
		form = hub.Patched
	}
	p.base = m.Pub.Offset
	return p.Form | form, on
}

// Received notes the offset of the last publication that the client received, for patches; 0 for one that is not in the
// stream.
func (p *Position) Received(offset uint64) { p.base = offset }

// Confirm notes that the position is right in this round of checks.
func (p *Position) Confirm(round uint32) { p.round = round }

// Check compares the position with the top of the stream. The check arrives after all publications before the top. So if
// the position has not moved since and is not the top, publications were lost, and Check returns false, as for a map
// without a stream, whose subscriber may have missed a change.
func (p *Position) Check(m *hub.Message) bool {
	if !p.Positioned {
		return !p.Keyed // a map without a stream may have changed, in any round
	}
	if !m.Concerns(p.round) {
		return true
	}
	if m.Pub.Offset != p.Offset || m.Epoch != p.Epoch {
		return false
	}
	p.round = m.Round
	return true
}

const maxBuffered = 4096

// Buffer keeps the messages of a channel until the subscribe reply is out, up to 4,096.
type Buffer []*hub.Message

// Keep reports false if there are too many messages.
func (b *Buffer) Keep(m *hub.Message) bool {
	if len(*b) >= maxBuffered {
		return false
	}
	m.Keep()
	*b = append(*b, m)
	return true
}

// Positions iterates over the positions of the publications of the stream.
func (b Buffer) Positions(yield func(channel.StreamPosition) bool) {
	for _, m := range b {
		if m.Kind == hub.KindPublication && m.Pub.Offset != 0 &&
			!yield(channel.StreamPosition{Offset: m.Pub.Offset, Epoch: m.Epoch}) {
			return
		}
	}
}
