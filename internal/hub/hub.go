// Package hub knows which subscribers a loop has for each channel, and encodes
// what is delivered to them: once per variant, shared by all.
package hub

// Subscriber takes the messages of a channel.
type Subscriber interface {
	// Deliver hands over a message. The subscriber may remove itself from the hub
	// meanwhile, but no other subscriber of the channel.
	Deliver(m *Message)
	// Seat is the hub's own note in the subscriber.
	Seat() *Seat
}

// Seat tells the hub where a subscriber sits. The zero value sits nowhere.
type Seat struct {
	room  *room
	index int
}

// Hub is the slice of a loop: it is used by one goroutine at a time.
type Hub struct {
	rooms map[string]*room
	seats int
}

type room struct {
	channel string
	subs    []Subscriber
}

// New returns an empty hub.
func New() *Hub { return &Hub{rooms: make(map[string]*room)} }

// Add seats s, which must not sit anywhere.
func (h *Hub) Add(ch string, s Subscriber) {
	r := h.rooms[ch]
	if r == nil {
		r = &room{channel: ch}
		h.rooms[ch] = r
	}
	*s.Seat() = Seat{room: r, index: len(r.subs)}
	r.subs = append(r.subs, s)
	h.seats++
}

// Remove takes s from its seat, if it has one.
func (h *Hub) Remove(s Subscriber) {
	seat := s.Seat()
	r := seat.room
	if r == nil {
		return
	}
	last := len(r.subs) - 1
	moved := r.subs[last]
	r.subs[seat.index] = moved
	moved.Seat().index = seat.index
	r.subs[last] = nil
	r.subs = r.subs[:last]
	*seat = Seat{}
	h.seats--
	switch {
	case last == 0:
		delete(h.rooms, r.channel)
	case cap(r.subs) > 64 && last < cap(r.subs)/4:
		r.subs = append(make([]Subscriber, 0, 2*last), r.subs...)
	}
}

// Publish delivers m to every subscriber of its channel.
func (h *Hub) Publish(m *Message) {
	r := h.rooms[m.Channel]
	if r == nil {
		return
	}
	// Backwards: when a subscriber removes itself, the one that takes its seat was
	// served already.
	for i := len(r.subs) - 1; i >= 0; i-- {
		r.subs[i].Deliver(m)
	}
}

// Channels calls f with each channel and the number of its subscribers.
func (h *Hub) Channels(f func(ch string, subscribers int)) {
	for ch, r := range h.rooms {
		f(ch, len(r.subs))
	}
}

// Subscribers is the number of seats taken.
func (h *Hub) Subscribers() int { return h.seats }
