package porttest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestFree: a port is free, and is returned once.
func TestFree(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port, err := FreePair(100)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range []int{port, port + 100} {
			if seen[port] || port < first || port >= end {
				t.Fatalf("port %d", port)
			}
			seen[port] = true
			ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			ln.Close()
		}
	}
}

// TestOtherProcess: another process does not get a port that this one was given, although nobody listens there.
func TestOtherProcess(t *testing.T) {
	if text := os.Getenv("PORTTEST_PORT"); text != "" {
		port, err := strconv.Atoi(text)
		fmt.Println("reserved:", reserve(port), err)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("ports are locked on Linux only")
	}
	port, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	other := func(port int) string {
		cmd := exec.Command(os.Args[0], "-test.run", "TestOtherProcess", "-test.v")
		cmd.Env = append(os.Environ(), "PORTTEST_PORT="+strconv.Itoa(port))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := other(port); !strings.Contains(out, "reserved: false <nil>") {
		t.Errorf("a port that is taken: %s", out)
	}
	mu.Lock()
	err = reserved[port].Close()
	mu.Unlock()
	if out := other(port); err != nil || !strings.Contains(out, "reserved: true <nil>") {
		t.Errorf("the same port, given back: %v, %s", err, out)
	}
}
