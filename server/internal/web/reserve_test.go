package web

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// tight is a listener for which descriptors are short while r keeps some back.
type tight struct {
	net.Listener
	reserve *Reserve
	err     error
	tries   int
}

func (l *tight) Accept() (net.Conn, error) {
	l.tries++
	if l.tries > Size+2 {
		return nil, net.ErrClosed
	}
	l.reserve.mu.Lock()
	held := len(l.reserve.held)
	l.reserve.mu.Unlock()
	if held > 0 {
		return nil, &net.OpError{Op: "accept", Err: l.err}
	}
	return l.Listener.Accept()
}

// TestReserve: it is spent one by one, for the lack of descriptors alone, and full
// again afterwards.
func TestReserve(t *testing.T) {
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED} {
		l := &tight{Listener: ln, err: err}
		r := &Reserve{Logger: slog.New(slog.DiscardHandler)}
		o := r.ForOperators("internal", l)
		defer o.Close()
		l.reserve = r
		if len(r.held) != Size {
			need.Skip(t, "more descriptors", "ulimit -n 1024")
		}
		client := must(net.Dial("tcp", ln.Addr().String()))
		nc, got := o.Accept()
		if errors.Is(err, syscall.ECONNABORTED) {
			if !errors.Is(got, err) || len(r.held) != Size {
				t.Errorf("%v: got %v, and %d are left", err, got, len(r.held))
			}
			nc = must(ln.Accept())
		} else if got != nil || l.tries != Size+1 {
			t.Fatalf("%v: got %v after %d tries", err, got, l.tries)
		} else if !errors.Is(r.Err(), err) {
			t.Errorf("%v: the shortage is %v", err, r.Err())
		}
		_ = nc.SetDeadline(time.Now().Add(wait.Limit))
		nc.Close()
		client.Close()
		if len(r.held) != Size {
			t.Errorf("%v: %d are kept back in the end", err, len(r.held))
		}
		if errors.Is(err, syscall.ECONNABORTED) {
			if o.Close(); r.fill() && len(r.held) != 0 {
				t.Errorf("%d are kept back by a closed reserve", len(r.held))
			}
		}
	}
}

// must returns the value of a call that cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
