package hub

import "github.com/gyrohq/gyro/transport"

// Frame is the frame that the loops share.
func (m *Message) Frame(f transport.Framer, form Form) ([]byte, error) {
	l := m.shared(f, form)
	return l.frame, l.err
}
