// Package httpmem serves HTTP in memory, for bubbles of testing/synctest: their time stands still while a goroutine
// waits for a socket.
package httpmem

import (
	"context"
	"net"
	"net/http"
	"testing"

	"google.golang.org/grpc/test/bufconn"
)

// Dial connects to a server and ignores the address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Serve serves until the test ends.
func Serve(tb testing.TB, h http.Handler) Dial {
	tb.Helper()
	l := bufconn.Listen(64 << 10)
	server, ended := &http.Server{Handler: h}, make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // http.ErrServerClosed
	}()
	tb.Cleanup(func() {
		_ = server.Close() // the listener cannot fail
		<-ended
	})
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialContext(ctx) }
}
