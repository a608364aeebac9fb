package hub

import "github.com/gyrohq/gyro/transport"

// Frame is the frame that the loops share.
func (m *Message) Frame(f transport.Framer, form Form) ([]byte, error) {
	l := m.shared(f, form)
	return l.frame, l.err
}

// Bases is how many bases there are, BaseBytes the size of their payloads.
func (h *Hub) Bases() (n int) {
	for _, list := range h.bases.of {
		n += len(list)
	}
	return n
}

func (h *Hub) BaseBytes() int { return h.bases.size }
