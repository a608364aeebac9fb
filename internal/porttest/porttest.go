// Package porttest finds ports for programs that tests start and that have to be told their port.
package porttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Systems choose ports from 32768 on for outgoing connections, and for listeners that leave the
// choice to them. The ports below are taken by nobody who does not ask for them.
const first, end = 22000, 32768

var given sync.Map // the ports that Free has returned or found taken

// Free returns a port of 127.0.0.1 on which nobody listens. No port is returned twice.
func Free() (int, error) {
	for range 1000 {
		port := first + rand.IntN(end-first)
		if _, before := given.LoadOrStore(port, nil); before {
			continue
		}
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, ln.Close()
		}
	}
	return 0, errors.New("porttest: no free port")
}
