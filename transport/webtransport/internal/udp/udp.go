// Package udp silences quic-go's warning about small buffers of UDP sockets, for server and client of WebTransport.
package udp

import "os"

// Hush keeps quic-go from warning of small socket buffers. False: the environment has that switch already.
func Hush() bool {
	const key = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if _, set := os.LookupEnv(key); set {
		return false
	}
	return os.Setenv(key, "true") == nil
}
