package main

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/gyrohq/gyro/server/internal/testkit/certtest"
)

// TestHealth: gyro health finds the endpoint where the configuration, variables and flags of the server put it, and its exit code
// says what the endpoint says.
func TestHealth(t *testing.T) {
	t.Parallel()
	dir, external, internal := t.TempDir(), freePort(t), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+external+`,"internal_port":"`+internal+`"},
		"health":{"enabled":true,"handler_prefix":"/up/"}}`)
	fail(t, dir, "refused", "health")
	p := launch(t, dir, nil, "gyro is running")
	for _, args := range [][]string{{"health"}, {"health", "--live"}, {"health", "-c", "none.json", "-p", external, "--health.enabled", "--http_server.internal_port", internal}} {
		out, messages, code := outcome(t, command(t, dir, []string{"GYRO_HEALTH_HANDLER_PREFIX=/up"}, args...))
		if code != 0 || !strings.HasPrefix(out, "{") || messages != "" {
			t.Errorf("%q: exit code %d, %s %s", args, code, out, messages)
		}
	}
	ends(t, command(t, dir, []string{"GYRO_HEALTH_HANDLER_PREFIX=/other"}, "health"), 1, "404")
	ends(t, command(t, dir, []string{"GYRO_HEALTH_ENABLED=false"}, "health"), 1, "health.enabled")
	misuse(t, dir, "timeout", "health", "--timeout", "0s")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	fail(t, dir, "refused", "health")

	// A node that does not answer.
	hangs, err := net.Listen("tcp", "127.0.0.1:"+internal)
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	fail(t, dir, "no answer within 50ms", "health", "--timeout", "50ms")
}

// TestHealthTLS: the certificate of the node need not be for this machine.
func TestHealthTLS(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	pair := certtest.SelfSigned(1)
	write(t, dir, "cert.pem", string(pair.Certificate))
	write(t, dir, "key.pem", string(pair.Key))
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`,"tls":{"enabled":true,"cert_pem":"cert.pem","key_pem":"key.pem"}},
		"health":{"enabled":true}}`)
	launch(t, dir, nil, "gyro is running")
	if out := succeed(t, dir, "health"); !strings.HasPrefix(out, "{") {
		t.Error(out)
	}
}
