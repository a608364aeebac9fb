package netio

import (
	"errors"
	"net"
	"os"
	"sync"
)

// Spare keeps a descriptor in reserve: making a net.Conn of a socket takes another one for a moment. If sockets held all
// of them, not even those of clients that have left could be closed. The zero Spare has nothing yet.
type Spare struct {
	mu    sync.Mutex
	file  *os.File // nil: no descriptor was free
	ended bool
}

// Conn is h.Conn. After a shortage it may be called again.
func (s *Spare) Conn(h *Handover) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nc, err := h.Conn()
	if err != nil && s.file != nil && IsShort(err) {
		_ = s.file.Close()
		s.file = nil
		nc, err = h.Conn()
	}
	s.reserve()
	return nc, err
}

// IsShort reports whether err tells of a shortage, such as of descriptors.
func IsShort(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Temporary() //nolint:staticcheck // net/http asks the same
}

// Reserve takes a descriptor in reserve.
func (s *Spare) Reserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserve()
}

func (s *Spare) reserve() {
	if s.file == nil && !s.ended {
		s.file, _ = os.Open(os.DevNull)
	}
}

// Release gives the descriptor back.
func (s *Spare) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.file != nil {
		_ = s.file.Close()
	}
}
