// Package dictionary expands messages that servers compress against a text that the client has (docs/bandwidth.md).
package dictionary

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"sync"
	"weak"
)

// Error says that a server does not compress as it should: forget the dictionary.
type Error struct{ text string }

func (e *Error) Error() string { return "the server compresses wrongly: " + e.text }

// Dictionary is a text. Any goroutine may use it.
type Dictionary struct {
	ID   string
	text []byte
}

// known has the dictionaries in use by ID, which follows from the text: the clients of a program mostly have the same
// one.
var known sync.Map // string -> weak.Pointer[Dictionary]

// Learn returns the dictionary of an ID, which is checked, from its deflated text of at most limit bytes.
func Learn(id string, deflated []byte, limit int) (*Dictionary, error) {
	var text []byte
	err := inflate(deflated, nil, limit, func(t []byte) error {
		text = bytes.Clone(t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	if want := base64.RawURLEncoding.EncodeToString(sum[:12]); id != want {
		return nil, &Error{fmt.Sprintf("a dictionary with the ID %.20q is that of %q", id, want)}
	}
	d := &Dictionary{ID: id, text: text}
	for {
		same, ok := known.LoadOrStore(id, weak.Make(d))
		if !ok {
			return d, nil
		}
		if kept := same.(weak.Pointer[Dictionary]).Value(); kept != nil {
			return kept, nil
		}
		if known.CompareAndSwap(id, same, weak.Make(d)) {
			return d, nil
		}
	}
}

// Open calls handle with the frame within a message: as it is, or deflated to at most limit bytes. handle must not keep it.
func (d *Dictionary) Open(message []byte, limit int, handle func(frame []byte) error) error {
	switch {
	case len(message) == 0:
		return &Error{"a message is empty"}
	case message[0] == 0:
		return handle(message[1:])
	case message[0] == 1:
		return inflate(message[1:], d.text, limit, handle)
	}
	return &Error{fmt.Sprintf("a message begins with %#x", message[0])}
}

type state struct {
	in  bytes.Reader
	out bytes.Buffer
	r   io.ReadCloser // also a flate.Resetter
}

var states = sync.Pool{New: func() any {
	s := new(state)
	s.r = flate.NewReader(&s.in)
	return s
}}

const maxKept = 64 << 10

// inflate wants raw DEFLATE, which must end where data does.
func inflate(data, dictionary []byte, limit int, handle func(text []byte) error) error {
	s := states.Get().(*state)
	s.in.Reset(data)
	s.out.Reset()
	err := s.r.(flate.Resetter).Reset(&s.in, dictionary)
	if err == nil {
		_, err = s.out.ReadFrom(io.LimitReader(s.r, int64(limit)+1))
	}
	switch {
	case err != nil:
		err = &Error{err.Error()}
	case s.out.Len() > limit:
		err = &Error{fmt.Sprintf("a message has more than %d bytes (Options.MessageLimit)", limit)}
	case s.in.Len() > 0:
		err = &Error{"something follows the end of a message"}
	default:
		err = handle(s.out.Bytes())
	}
	s.in.Reset(nil)
	if s.out.Cap() <= maxKept {
		states.Put(s)
	}
	return err
}
