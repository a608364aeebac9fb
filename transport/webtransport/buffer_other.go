//go:build !unix

package webtransport

// quic-go itself warns of small buffers.
func hushBufferWarning() bool { return false }
func (*Server) warnOfBuffer() {}
