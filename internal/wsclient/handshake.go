package wsclient

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const maxBody = 64 << 10

// StatusError says that the server has refused a request.
type StatusError struct {
	Status int
	Body   string // its first 64 KiB
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answers with status %d %s", e.Status, http.StatusText(e.Status))
	if body := strings.TrimSpace(e.Body); body != "" {
		text += ": " + strings.ToValidUTF8(body[:min(len(body), 256)], "\uFFFD")
	}
	return text
}

func Refused(res *http.Response) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxBody)) // what there is
	return &StatusError{res.StatusCode, string(text)}
}

const maxAnswer = 64 << 10

// NewKey returns a key for a handshake.
func NewKey() string {
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	return base64.StdEncoding.EncodeToString(nonce[:])
}

func asks(header http.Header, key, protocol string) {
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", "websocket")
	header.Set("Sec-WebSocket-Version", "13")
	header.Set("Sec-WebSocket-Key", key)
	if protocol != "" {
		header.Set("Sec-WebSocket-Protocol", protocol)
	}
}

// AppendRequest appends a handshake, for callers that do not need an http.RoundTripper. protocol may be empty.
func AppendRequest(dst []byte, host, uri, key, protocol string, header http.Header) []byte {
	dst = append(append(append(append(dst, "GET "...), uri...), " HTTP/1.1\r\nHost: "...), host...)
	dst = append(dst, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "...)
	dst = append(append(dst, key...), "\r\n"...)
	if protocol != "" {
		dst = append(append(append(dst, "Sec-WebSocket-Protocol: "...), protocol...), "\r\n"...)
	}
	if len(header) > 0 {
		var fields bytes.Buffer
		_ = header.Write(&fields) // a buffer does not fail
		dst = append(dst, fields.Bytes()...)
	}
	return append(dst, "\r\n"...)
}

type answer struct{ upgrade, accept, protocol, extensions []byte }

func (a *answer) check(key, protocol string) error {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	var accept [28]byte
	base64.StdEncoding.Encode(accept[:], sum[:])
	switch {
	case !bytes.EqualFold(a.upgrade, []byte("websocket")) || !bytes.Equal(a.accept, accept[:]):
		return errors.New("the answer to the handshake is not that of a WebSocket server")
	case string(a.protocol) != protocol:
		return fmt.Errorf("the server does not agree to the subprotocol %q", protocol)
	case len(a.extensions) > 0:
		return errors.New("the server uses an extension that nobody asked for")
	}
	return nil
}

// ParseAnswer returns the size of the answer to AppendRequest, or 0 if data has only a part of it. It fails if that
// opens no WebSocket; with a *StatusError if the server has refused.
func ParseAnswer(data []byte, key, protocol string) (size int, err error) {
	end := bytes.Index(data, []byte("\r\n\r\n"))
	switch {
	case end < 0 && len(data) > maxAnswer:
		return 0, fmt.Errorf("the answer to the handshake has more than %d bytes", maxAnswer)
	case end < 0:
		return 0, nil
	}
	line, rest, _ := bytes.Cut(data[:end+2], []byte("\r\n"))
	status, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("HTTP/1.1 ")), []byte(" "))
	switch code, err := strconv.Atoi(string(status)); {
	case err != nil:
		return 0, errors.New("the answer to the handshake is not that of a WebSocket server")
	case code != http.StatusSwitchingProtocols:
		return 0, &StatusError{Status: code}
	}
	var a answer
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Upgrade")):
			a.upgrade = value
		case bytes.EqualFold(name, []byte("Sec-WebSocket-Accept")):
			a.accept = value
		case bytes.EqualFold(name, []byte("Sec-WebSocket-Protocol")):
			a.protocol = value
		case bytes.EqualFold(name, []byte("Sec-WebSocket-Extensions")):
			a.extensions = value
		}
	}
	if err := a.check(key, protocol); err != nil {
		return 0, err
	}
	return end + 4, nil
}
