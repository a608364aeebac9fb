package simulation

import "github.com/gyrohq/gyro/client"

// pastBook knows what a channel's stream lost, as the server of the engine tells. Each time the data go back begins
// another life of the stream. A client may have got a position in a life, and the position may be given out again in
// the next one: then the client must be told. A stream that loses nothing has a nil pastBook.
type pastBook struct {
	tops []map[string]uint64 // by life before which the data went back: the top, by its epoch
	life map[string]int      // by publication
}

func newPastBook() *pastBook { return &pastBook{life: map[string]int{}} }

// back begins another life. A stream that is gone has no epoch.
func (p *pastBook) back(top client.StreamPosition) {
	p.tops = append(p.tops, map[string]uint64{top.Epoch: top.Offset})
}

// stored is a publication that the server has stored.
func (p *pastBook) stored(data string) { p.life[data] = p.now() }

func (p *pastBook) now() int {
	if p == nil {
		return 0
	}
	return len(p.tops)
}

func (p *pastBook) lifeOf(data string) int {
	if p == nil {
		return 0
	}
	return p.life[data]
}

// lost reports whether a position of one life does not exist in a later one, in which others may have it.
func (p *pastBook) lost(at client.StreamPosition, from, to int) bool {
	if p == nil {
		return false
	}
	for life := from; life < to; life++ {
		if top, ok := p.tops[life][at.Epoch]; ok && top < at.Offset {
			return true
		}
	}
	return false
}

// replaced reports whether another publication may have the position of this one.
func (p *pastBook) replaced(at client.StreamPosition, data string) bool {
	return p.lost(at, p.lifeOf(data), p.now())
}

// follows reports whether a publication continues from a position.
func (p *pastBook) follows(at client.StreamPosition, life int, data string) bool {
	return !p.lost(at, life, p.lifeOf(data))
}
