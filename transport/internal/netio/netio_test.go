package netio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/iotest"
	"time"
)

func TestBuffer(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, 4096, 65536, 65537, 1 << 20} {
		b := Get(n)
		if len(b.B) != 0 || cap(b.B) < n {
			t.Fatalf("Get(%d): len %d, cap %d", n, len(b.B), cap(b.B))
		}
		b.Free()
	}
	var b *Buffer
	b.Free()
	var want []byte
	for i := range 200 {
		p := bytes.Repeat([]byte{byte(i)}, i*10)
		b = b.Grow(len(p))
		b.B = append(b.B, p...)
		want = append(want, p...)
		if cap(b.B) > 4*len(want)+512 {
			t.Fatalf("%d bytes in a buffer of %d", len(want), cap(b.B))
		}
	}
	if !bytes.Equal(b.B, want) {
		t.Error("content lost")
	}
	b.Free()
}

// both returns the ends of a TCP connection.
func both(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestTryWrite(t *testing.T) {
	for name, frames := range map[string][][]byte{
		"none":   {},
		"empty":  {{}, {}},
		"one":    {[]byte("a")},
		"small":  {[]byte("a"), {}, []byte("bc"), []byte("d")},
		"mixed":  {bytes.Repeat([]byte("a"), gatherSize-1), []byte("b"), []byte("c"), bytes.Repeat([]byte("d"), 3*gatherSize), {}, []byte("e")},
		"border": {bytes.Repeat([]byte("a"), gatherSize), []byte("b")},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := both(t)
			s := NewStream(a)
			if _, ok := s.(*blocking); ok {
				t.Skip("no non-blocking sockets here")
			}
			want := bytes.Join(frames, nil)
			if n, err := s.TryWrite(frames); n != len(want) || err != nil {
				t.Fatalf("took %d of %d: %v", n, len(want), err)
			}
			s.CloseWrite()
			if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestTryWriteFull(t *testing.T) {
	a, b := both(t)
	s := NewStream(a)
	if _, ok := s.(*blocking); ok {
		t.Skip("no non-blocking sockets here")
	}
	p := make([]byte, 1<<20)
	for { // until also Write finds no room: a busy kernel delivers later what TryWrite gave it
		for n := 1; n > 0; {
			var err error
			if n, err = s.TryWrite([][]byte{p, p}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Write([]byte("x"), time.Millisecond); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write: %v", err)
			}
			break
		}
	}
	s.Abort()
	if _, err := io.Copy(io.Discard, b); err == nil {
		t.Error("not reset")
	}
}

func TestRead(t *testing.T) {
	wrap := map[string]func(net.Conn) Duplex{
		"socket":  func(c net.Conn) Duplex { return c },
		"wrapped": func(c net.Conn) Duplex { return struct{ net.Conn }{c} },
	}
	for name, f := range wrap {
		t.Run(name, func(t *testing.T) {
			a, b := both(t)
			s := NewStream(f(b))
			want := bytes.Repeat([]byte("0123456789"), 10000)
			go func() {
				_, _ = a.Write(want[:idleSize])
				_, _ = a.Write(want[idleSize:])
				a.Close()
			}()
			var got []byte
			for {
				p, err := s.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, p.B...)
				p.Free()
			}
			if !bytes.Equal(got, want) {
				t.Error("content differs")
			}
		})
	}
}

func TestReadDeadline(t *testing.T) {
	a, b := both(t)
	s := NewStream(b)
	done := make(chan error)
	go func() {
		_, err := s.Read()
		done <- err
	}()
	s.SetReadDeadline(time.Unix(1, 0))
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("woken with %v", err)
	}
	s.SetReadDeadline(time.Time{})
	_, _ = a.Write([]byte("x"))
	if p, err := s.Read(); err != nil || string(p.B) != "x" {
		t.Errorf("got %v, %v", p, err)
	}
}

// duplex reads from r; the rest of net.Conn is not used.
type duplex struct {
	net.Conn
	r io.Reader
}

func (d duplex) Read(p []byte) (int, error) { return d.r.Read(p) }

// TestReadErrorWithData: bytes that come along with an error are not lost.
func TestReadErrorWithData(t *testing.T) {
	s := NewStream(duplex{r: iotest.DataErrReader(bytes.NewReader([]byte("last")))})
	p, err := s.Read()
	if err != nil || string(p.B) != "last" {
		t.Fatalf("got %v, %v", p, err)
	}
	if _, err = s.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("then %v", err)
	}
}
