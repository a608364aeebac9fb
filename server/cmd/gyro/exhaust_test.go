//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// TestDescriptorsExhausted: clients take all descriptors that the process may have.
// The listener backs off, who is connected notices nothing, operators still get in and see that the node is not ready, and why,
// and all is well once clients leave: those that waited get in.
func TestDescriptorsExhausted(t *testing.T) {
	t.Parallel()
	for driver, goroutines := range map[string]bool{"loops": false, "goroutines": true} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			testDescriptorsExhausted(t, goroutines)
		})
	}
}

func testDescriptorsExhausted(t *testing.T, goroutines bool) {
	const limit = 100
	dir, external, internal := t.TempDir(), freePort(t), freePort(t)
	write(t, dir, "config.json", fmt.Sprintf(`{
		"http_server":{"address":"127.0.0.1","port":%s,"internal_port":%q},"http_api":{"key":"k"},"health":{"enabled":true},"prometheus":{"enabled":true},
		"websocket":{"goroutine_driver":%v},
		"client":{"insecure":true},"channel":{"without_namespace":{"allow_subscribe_for_client":true}}}`, external, internal, goroutines))
	cmd := command(t, dir, nil)
	cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	p := begin(t, cmd, "gyro is running")
	c := wstest.Dial(t, "http://127.0.0.1:"+external+"/connection/websocket", nil)
	c.Connect("")
	c.Subscribe("a", "")

	var crowd []net.Conn
	for range 2 * limit {
		nc, err := net.Dial("tcp", "127.0.0.1:"+external)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write([]byte("GET /connection/websocket HTTP/1.1\r\nHost: a\r\n"))
		crowd = append(crowd, nc)
	}
	p.await(`"connections wait: no file descriptors are left","listener":"external"`)
	health, metrics := "http://127.0.0.1:"+internal+"/health", "http://127.0.0.1:"+internal+"/metrics"
	for n := range 100 { // more than are kept back
		status, body := operate(t, health, "")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "the external listener takes no connections: accept tcp 127.0.0.1:"+external) {
			t.Fatalf("health, the %dth time: %d %s", n, status, body)
		}
		if status, body := operate(t, "http://127.0.0.1:"+internal+"/api/publish", fmt.Sprintf(`{"channel":"a","data":%d}`, n)); status != http.StatusOK {
			t.Fatalf("publish, the %dth time: %d %s", n, status, body)
		}
		if got := string(c.Pub().Data); got != fmt.Sprint(n) {
			t.Fatalf("the client got %s, want %d", got, n)
		}
	}
	if got, _ := c.Outcome(`"presence":{"channel":"a"}`); got != "error 108" {
		t.Errorf("the client's command: %s", got)
	}
	if _, body := operate(t, metrics, ""); !strings.Contains(body, "\ngyro_node_ready 0\n") {
		t.Errorf("metrics of a node without descriptors: %s", body)
	}
	var waiting []net.Conn // a few, as one may be closed so that operators get in
	for range 10 {
		nc, err := net.Dial("tcp", "127.0.0.1:"+external)
		if err != nil {
			t.Fatalf("a client that comes while there are no descriptors: %v", err)
		}
		defer nc.Close()
		_, _ = nc.Write([]byte("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"))
		waiting = append(waiting, nc)
	}
	for _, nc := range crowd {
		nc.Close()
	}
	answered := 0
	for _, nc := range waiting {
		_ = nc.SetReadDeadline(time.Now().Add(wait.Limit))
		if line, _ := bufio.NewReader(nc).ReadString('\n'); strings.HasPrefix(line, "HTTP/1.1 404") {
			answered++
		}
	}
	if answered == 0 {
		t.Error("no client that waited for a descriptor got in")
	}
	wait.Until(t, "a node that is ready", func() bool {
		status, _ := operate(t, health, "")
		return status == http.StatusOK
	})
	if _, body := operate(t, metrics, ""); !strings.Contains(body, "\ngyro_node_ready 1\n") {
		t.Errorf("metrics of a node that is ready: %s", body)
	}
	wstest.Dial(t, "http://127.0.0.1:"+external+"/connection/websocket", nil).Connect("")
	p.signal(syscall.SIGTERM)
	if d := c.Disconnected(); d != protocol.DisconnectShutdown {
		t.Errorf("the client ended with %v", d)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d: %s", code, p.text())
	}
}

// operate asks by a connection of its own: a GET request, or a POST of a body.
func operate(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", "k")
	req.Close = true
	res, err := (&http.Client{Timeout: wait.Limit}).Do(req)
	if err != nil {
		t.Log(err)
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
