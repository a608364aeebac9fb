// Package porttest finds ports for programs that tests start with a port as an argument.
package porttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Systems choose ports from 32768 on for outgoing connections, and for listeners that leave the choice to them. Examples
// use some ports below 12000.
const first, end = 12000, 32768

// Free returns a port of 127.0.0.1 without a listener. No port is returned twice; on Linux, not to another process
// either while this one lives, because a program may need long to listen on it.
func Free() (int, error) { return FreePair(0) }

// Address returns 127.0.0.1 with a port of Free, for a listener that a test closes, and perhaps opens again. Systems
// could use a port of their own choice meanwhile for an outgoing connection, even one to this port.
func Address(tb testing.TB) string {
	tb.Helper()
	port, err := Free()
	if err != nil {
		tb.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// FreePair returns a port of Free whose number plus apart is free as well.
func FreePair(apart int) (int, error) {
	for range 1000 {
		port := first + rand.IntN(end-first-apart)
		if reserve(port) && (apart == 0 || reserve(port+apart)) {
			return port, nil
		}
	}
	return 0, errors.New("porttest: no free port")
}

var (
	mu       sync.Mutex
	reserved = map[int]net.Listener{} // the ports that were tried, with the lock of each
)

// reserve reports whether the port is free, and was not reserved before.
func reserve(port int) bool {
	mu.Lock()
	defer mu.Unlock()
	if _, before := reserved[port]; before {
		return false
	}
	lock, err := lock(port)
	if err != nil {
		return false
	}
	reserved[port] = lock
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && ln.Close() == nil
}

// length of the names of locks, which is the room in the address: Node.js fills it up, and the tests in JavaScript take
// the same locks.
const length = 108

// lock takes a name that only one process can have. Linux has such names without files.
func lock(port int) (net.Listener, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	name := fmt.Sprintf("@gyro-test-port-%d", port)
	return net.Listen("unix", name+strings.Repeat("\x00", length-len(name)))
}
