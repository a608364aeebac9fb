//go:build linux || darwin

package websocket

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
)

// TestDescriptorsExhausted: the listener waits, clients that are connected notice nothing, and
// nobody is lost. The test counts on every descriptor, so it has a process of its own: in this
// one, connections of earlier tests may still end.
func TestDescriptorsExhausted(t *testing.T) {
	needLoops(t)
	const alone = "GYRO_TEST_ALONE"
	if os.Getenv(alone) != "" {
		testDescriptorsExhausted(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDescriptorsExhausted$", "-test.v")
	cmd.Env = append(os.Environ(), alone+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v:\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: TestDescriptorsExhausted"):
		t.Skipf("%s", out)
	}
}

func testDescriptorsExhausted(t *testing.T) {
	var logs logtest.Buffer
	s := siteServer(t, true, func(hs *http.Server) { hs.ErrorLog = log.New(&logs, "", 0) })
	c, _ := newClient(t, s.dial(), "/ws", nil)
	p := wait.Receive(t, "a peer", s.peers)

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skip(err)
	}
	low := limit
	low.Cur = uint64(len(descriptors(t)) + 10)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }()
	var hoard []int
	for {
		fd, err := syscall.Dup(0)
		if err != nil {
			break
		}
		hoard = append(hoard, fd)
	}
	release := func(n int) {
		for _, fd := range hoard[len(hoard)-n:] {
			_ = syscall.Close(fd)
		}
		hoard = hoard[:len(hoard)-n]
	}
	defer func() {
		release(len(hoard))
		if t.Failed() {
			t.Log(logs.String())
		}
	}()

	release(1)
	waiting := s.dial()
	wait.Until(t, "a line in the log", func() bool {
		return strings.Contains(logs.String(), "http: Accept error: accept tcp "+s.Listener.Addr().String()+": accept4: too many open files; retrying in")
	})
	c.send(text("still here"))
	p.Message()
	p.write("so am I")
	c.expect(text("so am I"))

	// One for the socket, and none for net/http to make a connection of it, but what
	// the listener has kept back.
	fmt.Fprint(waiting, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n")
	release(1)
	_ = waiting.SetDeadline(time.Now().Add(patience))
	if resp, err := http.ReadResponse(bufio.NewReader(waiting), nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the client that waited got %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	release(len(hoard))
	waiting.Close()
	converse(t, c, p)
}
