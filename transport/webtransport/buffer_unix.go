//go:build unix

package webtransport

import (
	"syscall"

	"github.com/gyrohq/gyro/transport/webtransport/internal/udp"
)

// wantedBuffer is what quic-go asks for, in bytes of net.core.rmem_max.
const wantedBuffer = 7 << 20

// hushBufferWarning keeps quic-go from warning. True: warnOfBuffer does it instead.
func hushBufferWarning() bool { return udp.Hush() }

// warnOfBuffer warns of buffers that overflow when many packets come together.
func (s *Server) warnOfBuffer() {
	socket, ok := s.conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	size := 0
	_ = raw.Control(func(fd uintptr) {
		size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	})
	if err == nil && size < wantedBuffer {
		s.logf("http3: UDP receive buffer: the system allows %d KB of %d KB, so packets may be lost when many come together; "+
			"raise net.core.rmem_max and net.core.wmem_max to %d", size>>10, wantedBuffer>>10, wantedBuffer)
	}
}
