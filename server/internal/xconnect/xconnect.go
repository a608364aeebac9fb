// Package xconnect makes the HTTP/2 servers of the process offer extended CONNECT
// (RFC 8441), and with it WebSocket over HTTP/2. Importing it is enough.
//
// net/http decides that when it is initialised, by the variable GODEBUG of the
// environment alone. Packages are initialised in the order of their import paths
// as soon as what they import is, so this one, which imports nothing but what
// net/http needs as well, comes before net/http.
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
