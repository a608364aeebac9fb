// Package xconnect makes the HTTP/2 servers of the process offer extended CONNECT (RFC 8441), for WebSocket over HTTP/2.
// Import it. net/http decides by GODEBUG when it is initialized. Packages are initialized after their imports, otherwise
// in the order of import paths; this package imports only what net/http needs too, so it comes before net/http.
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
