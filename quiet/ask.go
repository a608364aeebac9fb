package quiet

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// Asker writes a question to a connection, and reads the answer. It saves a read that would find nothing, because no
// answer can be there yet: Go's poller notes all bytes that arrive after the question was written.
type Asker struct {
	conn *conn
	step func(uintptr) bool // try, made once

	question, answer []byte
	asked, pending   bool
	written, read    int
	failed           *way // the direction that failed with errno
	errno            syscall.Errno
}

// ErrPending: there is something to read before the question: bytes, the end of the stream or an error.
var ErrPending = errors.New("quiet: something came before the question")

// NewAsker returns an Asker for a result of Conn. It is nil where Conn returns the connection itself.
func NewAsker(nc net.Conn) *Asker {
	c, ok := nc.(*conn)
	if !ok {
		return nil
	}
	a := &Asker{conn: c}
	a.step = a.try
	return a
}

// Ask writes the question and reads at least a part of the answer. Neither slice may be empty. No other goroutine may
// read or write meanwhile.
func (a *Asker) Ask(question, answer []byte) (written, read int, err error) {
	a.question, a.answer, a.asked = question, answer, false
	a.pending, a.written, a.read, a.failed, a.errno = false, 0, 0, &a.conn.in, 0
	err = a.conn.in.wait(a.step)
	a.question, a.answer = nil, nil
	if err = a.failed.outcome(a.errno, err); err != nil {
		return a.written, 0, err
	}
	switch {
	case a.pending:
		return 0, 0, ErrPending
	case a.written < len(question):
		n, err := a.conn.Write(question[a.written:])
		if a.written += n; err != nil {
			return a.written, 0, err
		}
		a.read, err = a.conn.Read(answer)
		return a.written, a.read, err
	case a.read == 0:
		return a.written, 0, io.EOF
	}
	return a.written, a.read, nil
}

// try reports whether Go's poller need not wait: bytes were read, there was an error, or the socket did not take the
// whole question.
func (a *Asker) try(fd uintptr) bool {
	if !a.asked {
		a.asked = true
		if a.pending = peek(fd) != syscall.EAGAIN; a.pending {
			return true // the poller may have told of it before, and would not again
		}
		n, errno := Write(fd, a.question)
		switch a.written = n; {
		case errno == syscall.EAGAIN || errno == syscall.EINTR:
			a.written = 0
		case errno != 0:
			a.written, a.failed, a.errno = 0, &a.conn.out, errno
			return true
		}
		return a.written < len(a.question)
	}
	for {
		n, errno := Read(fd, a.answer)
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		a.read, a.errno = n, errno
		return true
	}
}
