package web

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/testkit/logtest"
)

// dry is a listener without descriptors while err is set.
type dry struct{ err error }

func (d *dry) Accept() (net.Conn, error) {
	if d.err != nil {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: d.Addr(), Err: os.NewSyscallError("accept4", d.err)}
	}
	ours, _ := net.Pipe()
	return ours, nil
}
func (*dry) Close() error   { return nil }
func (*dry) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000} }

// TestShortage: a listener without descriptors is told of from the first attempt until 3 s after the last one, and logged
// once at the begin and once at the end.
func TestShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := new(logtest.Buffer)
		r := &Reserve{Logger: slog.New(slog.NewTextHandler(logs, nil))}
		d := new(dry)
		ln := &operators{d, "internal", r} // a reserve that is empty
		accept := func(want error) {
			t.Helper()
			if nc, err := ln.Accept(); !errors.Is(err, want) {
				t.Fatalf("accepted %v, %v", nc, err)
			}
		}
		accept(nil)
		if err := r.Err(); err != nil || logs.String() != "" {
			t.Fatalf("%v without a shortage, and the log says %s", err, logs)
		}
		d.err = syscall.EMFILE
		for range 10 {
			accept(syscall.EMFILE)
			time.Sleep(time.Second)
			if err := r.Err(); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "the internal listener takes no connections") {
				t.Fatalf("the shortage is %v", err)
			}
		}
		d.err = nil
		accept(nil)
		if r.Err() == nil {
			t.Error("a connection was accepted a second after one was not: the shortage is not over")
		}
		time.Sleep(Validity)
		if err := r.Err(); err != nil {
			t.Errorf("%v, %v after the last attempt that failed", err, Validity+time.Second)
		}
		accept(nil)
		begins, ends := "level=ERROR msg=\"connections wait: no file descriptors are left\" listener=internal addr=127.0.0.1:8000 key=client.connection_limit",
			"level=INFO msg=\"connections are accepted again\" listener=internal"
		for _, text := range []string{begins, ends, "after_ms=9000", "too many open files"} {
			if strings.Count(logs.String(), text) != 1 {
				t.Errorf("the log does not say once %q:\n%s", text, logs)
			}
		}
		d.err = syscall.ENFILE
		accept(syscall.ENFILE)
		if !errors.Is(r.Err(), syscall.ENFILE) {
			t.Errorf("the next shortage is %v", r.Err())
		}
	})
}
