// Package natstest runs NATS servers in the process of a test.
package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Start runs a server without JetStream on a free port until the test ends, and returns its URL. The goroutine of the
// test calls it.
func Start(t testing.TB) (url string) {
	t.Helper()
	return StartWith(t, func(*server.Options) {})
}

// StartWith is Start with further options.
func StartWith(t testing.TB, edit func(*server.Options)) (url string) {
	t.Helper()
	return Run(t, edit).ClientURL()
}

// Run is StartWith for a test that ends the server itself.
func Run(t testing.TB, edit func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}
	edit(o)
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(wait.Limit) {
		t.Fatal("the NATS server does not get ready")
	}
	return s
}
