package quiet

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair is a quiet connection and the other end of it.
func pair(t *testing.T, network string) (quiet, other net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "socket")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial(network, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); other.Close() })
	quiet = Conn(nc)
	if _, ok := quiet.(*conn); ok != supported {
		t.Fatalf("%T", quiet)
	}
	return quiet, other
}

// What one end writes the other reads, both ways at a time, in any portions.
func TestTransfer(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			quiet, other := pair(t, network)
			r := rand.New(rand.NewPCG(1, 2))
			data := make([]byte, 4<<20)
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			var group sync.WaitGroup
			send := func(c net.Conn) {
				for at := 0; at < len(data); {
					n := min(1+int(data[at])*1000, len(data)-at)
					if k, err := c.Write(data[at : at+n]); k != n || err != nil {
						t.Errorf("wrote %d of %d: %v", k, n, err)
						return
					}
					at += n
				}
			}
			receive := func(c net.Conn) {
				got := make([]byte, len(data))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
					t.Errorf("received something else: %v", err)
				}
			}
			for _, c := range []net.Conn{quiet, other} {
				group.Go(func() { send(c) })
				group.Go(func() { receive(c) })
			}
			group.Wait()
		})
	}
}

func TestErrors(t *testing.T) {
	quiet, other := pair(t, "tcp")
	if err := quiet.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := quiet.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past the deadline: %d, %v", n, err)
	}
	if err := quiet.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := quiet.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing to read into: %d, %v", n, err)
	}
	if err := other.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := quiet.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if err := other.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	other.Close()
	var err error
	for err == nil {
		_, err = quiet.Write(make([]byte, 1000))
	}
	var failure *net.OpError
	if !errors.As(err, &failure) || failure.Op != "write" || !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %v", err)
	}
	quiet.Close()
	if _, err := quiet.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A call that waits ends with the connection.
func TestCloseWakes(t *testing.T) {
	quiet, _ := pair(t, "tcp")
	done := make(chan error)
	go func() {
		_, err := quiet.Read(make([]byte, 1))
		done <- err
	}()
	quiet.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed meanwhile: %v", err)
	}
}

func TestAllocations(t *testing.T) {
	quiet, other := pair(t, "tcp")
	p := make([]byte, 10)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := quiet.Write(p); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other, p); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Write(p); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(quiet, p); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is no socket stays as it is.
func TestOthers(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	defer a.Close()
	if Conn(a) != a {
		t.Error("a pipe was wrapped")
	}
}

// Pending sees data, the end of the stream and a closed socket, and takes nothing.
func TestPending(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			if !supported {
				t.Skip("it cannot tell on every such system")
			}
			quiet, other := pair(t, network)
			nc := quiet.(*conn).Conn
			pending := Pending(nc)
			if pending() {
				t.Error("pending before anything was sent")
			}
			if _, err := other.Write([]byte("ab")); err != nil {
				t.Fatal(err)
			}
			arrived(t, nc)
			for range 2 {
				if !pending() {
					t.Error("not pending with data")
				}
			}
			if b := make([]byte, 4); read(t, quiet, b) != "ab" {
				t.Errorf("read %q", b)
			}
			if pending() {
				t.Error("pending after everything was read")
			}
			other.Close()
			arrived(t, nc)
			if !pending() {
				t.Error("not pending at the end of the stream")
			}
			nc.Close()
			if !pending() {
				t.Error("not pending after Close")
			}
		})
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Pending(a)() {
		t.Error("pending on what is not a socket")
	}
}

// arrived waits until a read would return at once.
func arrived(t *testing.T, nc net.Conn) {
	t.Helper()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	looked := false
	err = raw.Read(func(fd uintptr) bool { // the poller calls it again when something has come
		looked = true
		return peek(fd) == 0
	})
	if err != nil || !looked {
		t.Fatal(err)
	}
}

func read(t *testing.T, c net.Conn, b []byte) string {
	t.Helper()
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}
