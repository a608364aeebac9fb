//go:build !unix

package proxy

import "net"

// readable is for systems that cannot be asked. There, a call on a connection that the backend
// has closed fails.
func readable(net.Conn) bool { return false }
