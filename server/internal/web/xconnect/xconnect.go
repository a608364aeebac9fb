// Package xconnect makes the HTTP/2 servers of the process offer extended CONNECT
// (RFC 8441), and with it WebSocket over HTTP/2. Importing it is enough.
//
// net/http decides that when it is initialised, by the environment variable GODEBUG alone. A
// package is initialised after its imports, and in the order of import paths otherwise. This
// package imports nothing that net/http does not need, too, so it is initialised before net/http.
package xconnect

import "os"

func init() {
	const setting = "http2xconnect=1"
	if v := os.Getenv("GODEBUG"); v != "" {
		_ = os.Setenv("GODEBUG", v+","+setting)
		return
	}
	_ = os.Setenv("GODEBUG", setting) // fails for malformed names only
}
