package app

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/server/internal/config"
)

// TestAmbiguousRequests: the server answers a request whose end a proxy may see elsewhere with 400, and not the request that
// follows, on each listener, with TLS and without.
func TestAmbiguousRequests(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := startServer(t, func(cfg *config.Config) {
			cfg.Health.Enabled, cfg.HTTPServer.InternalAddress, cfg.HTTPServer.InternalPort = true, "127.0.0.1", fmt.Sprint(must(porttest.Free()))
			if secure {
				cfg.HTTPServer.TLS = certificate(1)
			}
		})
		for _, name := range []string{"external", "internal"} {
			if secure {
				c := must(net.Dial("tcp", s.app.Addr(name)))
				t.Cleanup(func() { c.Close() })
				must(io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
				if got := must(io.ReadAll(c)); !bytes.Contains(got, []byte("Client sent an HTTP request to an HTTPS server.")) {
					t.Errorf("%s listener, plaintext: %s", name, got)
				}
			}
			for _, path := range []string{"/emulation", "/api/info", "/health", "/none"} {
				c := must(net.Dial("tcp", s.app.Addr(name)))
				if secure {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
				}
				t.Cleanup(func() { c.Close() })
				must(io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+
					"POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
					"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
				got := must(io.ReadAll(c))
				if n := bytes.Count(got, []byte("HTTP/1.1 ")); n != 2 || !bytes.Contains(got, []byte("HTTP/1.1 400 Bad Request")) {
					t.Errorf("TLS: %v, %s listener, %s: %d answers: %s", secure, name, path, n, got)
				}
			}
		}
	}
}
