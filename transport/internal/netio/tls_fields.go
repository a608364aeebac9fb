package netio

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"
)

// A tls.Conn keeps two buffers, as large as the largest record and handshake message that it has seen: some 5 KB of an
// idle connection's 7. The standard library has no way to free them, so they are found by their names. If these change,
// connections take more memory, and nothing else changes.
var (
	rawInputOffset  = offsetOf("rawInput")
	handshakeOffset = offsetOf("hand")
)

// offsetOf returns the offset of a bytes.Buffer in tls.Conn; 0: there is none. No buffer is the first field.
func offsetOf(name string) uintptr {
	f, ok := reflect.TypeFor[tls.Conn]().FieldByName(name)
	if !ok || f.Type != reflect.TypeFor[bytes.Buffer]() {
		return 0
	}
	return f.Offset
}

// rawInput is the buffer of received ciphertext; nil: not known.
func rawInput(c *tls.Conn) *bytes.Buffer { return bufferAt(c, rawInputOffset) }

// handshakeInput is the buffer of handshake messages; nil: not known.
func handshakeInput(c *tls.Conn) *bytes.Buffer { return bufferAt(c, handshakeOffset) }

func bufferAt(c *tls.Conn, offset uintptr) *bytes.Buffer {
	if offset == 0 {
		return nil
	}
	return (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), offset))
}
