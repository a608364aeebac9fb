package quiet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

func asker(t *testing.T) (a *Asker, other net.Conn) {
	t.Helper()
	if !supported {
		t.Skip("there is no Asker on this system")
	}
	c, other := pair(t, "tcp")
	return NewAsker(c), other
}

// Questions of any size arrive, and the beginning of each answer comes back.
func TestAsk(t *testing.T) {
	a, other := asker(t)
	for _, size := range []int{1, 1000, 8 << 20, 10} { // a socket does not take 8 MiB at once
		question := bytes.Repeat([]byte{byte(size)}, size)
		go func() {
			got := make([]byte, size)
			if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, question) {
				t.Errorf("a question of %d bytes: %v", size, err)
			}
			_, _ = other.Write([]byte("answer"))
		}()
		answer := make([]byte, 10)
		written, n, err := a.Ask(question, answer)
		if written != size || string(answer[:n]) != "answer" || err != nil {
			t.Errorf("wrote %d of %d, read %q: %v", written, size, answer[:n], err)
		}
	}
}

// Nothing is asked when something is there to read.
func TestAskPending(t *testing.T) {
	for what, come := range map[string]func(other net.Conn){
		"bytes":   func(other net.Conn) { _, _ = other.Write([]byte("x")) },
		"the end": func(other net.Conn) { other.Close() },
	} {
		a, other := asker(t)
		come(other)
		if err := a.conn.in.wait(func(fd uintptr) bool { return peek(fd) != syscall.EAGAIN }); err != nil {
			t.Fatal(err)
		}
		if written, n, err := a.Ask([]byte("q"), make([]byte, 10)); written != 0 || n != 0 || !errors.Is(err, ErrPending) {
			t.Errorf("%s before the question: wrote %d, read %d: %v", what, written, n, err)
		}
	}
}

// TestAskErrors: Ask has the errors of Read and Write.
func TestAskErrors(t *testing.T) {
	ask := func(a *Asker) (int, error) {
		written, n, err := a.Ask([]byte("question"), make([]byte, 10))
		if n != 0 {
			t.Errorf("read %d bytes", n)
		}
		return written, err
	}
	a, _ := asker(t)
	if err := a.conn.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if written, err := ask(a); written != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote %d after the deadline: %v", written, err)
	}

	a, _ = asker(t)
	if err := a.conn.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var failure *net.OpError
	if _, err := ask(a); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &failure) || failure.Op != "read" {
		t.Errorf("no answer until the deadline: %v", err)
	}

	a, other := asker(t)
	go func() { _, _ = other.Read(make([]byte, 8)); other.Close() }()
	if written, err := ask(a); written != 8 || !errors.Is(err, io.EOF) {
		t.Errorf("wrote %d, and the other end was closed: %v", written, err)
	}

	a, _ = asker(t)
	if err := a.conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if written, err := ask(a); written != 0 || !errors.Is(err, syscall.EPIPE) || !errors.As(err, &failure) || failure.Op != "write" {
		t.Errorf("wrote %d behind the end of the stream: %v", written, err)
	}

	a, _ = asker(t)
	a.conn.Close()
	if written, err := ask(a); written != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("wrote %d to a closed connection: %v", written, err)
	}
}

// Ask allocates nothing.
func TestAskAllocations(t *testing.T) {
	a, other := asker(t)
	go func() {
		for b := make([]byte, 10); ; {
			n, err := other.Read(b)
			if err != nil {
				return
			}
			_, _ = other.Write(b[:n])
		}
	}()
	question, answer := []byte("question"), make([]byte, 10)
	if got := testing.AllocsPerRun(100, func() { _, _, _ = a.Ask(question, answer) }); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

// BenchmarkAsk is a question with its answer, beside Pending, Write and Read.
func BenchmarkAsk(b *testing.B) {
	for _, name := range []string{"ask", "three calls"} {
		b.Run(name, func(b *testing.B) { benchmarkAsk(b, name == "ask") })
	}
}

func benchmarkAsk(b *testing.B, together bool) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	other, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for p := make([]byte, 200); ; {
			n, err := other.Read(p)
			if err != nil {
				return
			}
			_, _ = other.Write(p[:n])
		}
	}()
	c := Conn(raw)
	a, pending := NewAsker(c), Pending(raw)
	question, answer := make([]byte, 200), make([]byte, 200)
	for b.Loop() {
		if together {
			_, _, err = a.Ask(question, answer)
		} else if _, err = c.Write(question); err == nil {
			_, err = c.Read(answer)
		}
		if err != nil || !together && pending() {
			b.Fatal(err)
		}
	}
}
