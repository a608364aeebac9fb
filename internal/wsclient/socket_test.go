package wsclient

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// serve answers a handshake, with other header fields if there are any, and plays the server of the connection.
func serve(t *testing.T, header string, play func(c net.Conn, r *bufio.Reader)) *Dialer {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if !strings.Contains(header, "Sec-WebSocket-Accept") {
			header += accept(r)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+header+"\r\n")
		play(c, rw.Reader)
	}))
	t.Cleanup(s.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &Dialer{URL: s.URL, Limit: 1000, Transport: transport}
}

// accept is the header field that agrees to a handshake.
func accept(r *http.Request) string {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return "Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
}

// frame is one of a server.
func frame(first byte, payload string) []byte {
	f := []byte{first}
	switch n := len(payload); {
	case n <= maxControl:
		f = append(f, byte(n))
	case n < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, 126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, 127), uint64(n))
	}
	return append(f, payload...)
}

// received reads a frame of the client.
func received(t *testing.T, r io.Reader) (first byte, payload string) {
	t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Error(err)
		return 0, ""
	}
	n := int(head[1] & 0x7F)
	if n == 126 {
		var long [2]byte
		_, _ = io.ReadFull(r, long[:])
		n = int(binary.BigEndian.Uint16(long[:]))
	}
	if head[1]&0x80 == 0 {
		t.Error("the client does not mask")
	}
	masked := make([]byte, 4+n)
	if _, err := io.ReadFull(r, masked); err != nil {
		t.Error(err)
	}
	for i := range masked[4:] {
		masked[4+i] ^= masked[i&3]
	}
	return head[0], string(masked[4:])
}

// TestConversation: fragments, control frames between them, messages of all sizes, cut anywhere.
func TestConversation(t *testing.T) {
	long := strings.Repeat("long ", 180)
	var script []byte
	for _, f := range [][]byte{
		frame(0x81, "one"), frame(0x01, "t"), frame(0x89, "ping"), frame(0x00, "w"), frame(0x8A, "pong"), frame(0x80, "o"),
		frame(0x82, long), frame(0x81, ""), frame(0x88, "\x0B\xB9bye"),
	} {
		script = append(script, f...)
	}
	for _, step := range []int{1, 7, len(script)} {
		d := serve(t, "", func(c net.Conn, r *bufio.Reader) {
			if first, got := received(t, r); first != 0x81 || got != long {
				t.Errorf("%x %q", first, got)
			}
			for part := range slices.Chunk(script, step) {
				_, _ = c.Write(part)
			}
			if first, got := received(t, r); first != 0x8A || got != "ping" {
				t.Errorf("%x %q", first, got)
			}
			if first, got := received(t, r); first != 0x88 || got != "\x0B\xB9bye" {
				t.Errorf("%x %q", first, got)
			}
		})
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write([]byte(long)); err != nil {
			t.Fatal(err)
		}
		var got []string
		err = c.Read(func(m []byte) error { got = append(got, string(m)); return nil })
		var closed *CloseError
		if !errors.As(err, &closed) || closed.Code != 3001 || closed.Reason != "bye" {
			t.Errorf("%v", err)
		}
		if !slices.Equal(got, []string{"one", "two", long, ""}) {
			t.Errorf("%q", got)
		}
	}
}

// TestBroken: rules that a server breaks, and what the client says to that.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		sent []byte
		code string
	}{
		"too big":            {frame(0x81, strings.Repeat("x", 1001)), "\x03\xF1"},
		"too big in parts":   {append(frame(0x01, strings.Repeat("x", 600)), frame(0x80, strings.Repeat("x", 600))...), "\x03\xF1"},
		"huge":               {append([]byte{0x81, 127}, 0xFF, 0, 0, 0, 0, 0, 0, 0), "\x03\xF1"},
		"reserved bits":      {frame(0xC1, "x"), "\x03\xEA"},
		"masked":             {[]byte{0x81, 0x81, 0, 0, 0, 0, 'x'}, "\x03\xEA"},
		"unknown opcode":     {frame(0x83, "x"), "\x03\xEA"},
		"unknown control":    {frame(0x8B, "x"), "\x03\xEA"},
		"continuation":       {frame(0x80, "x"), "\x03\xEA"},
		"no continuation":    {append(frame(0x01, "x"), frame(0x81, "y")...), "\x03\xEA"},
		"ping in parts":      {frame(0x09, "x"), "\x03\xEA"},
		"ping that is large": {frame(0x89, strings.Repeat("x", 126)), "\x03\xEA"},
	} {
		t.Run(name, func(t *testing.T) {
			said := make(chan string, 1)
			d := serve(t, "", func(conn net.Conn, r *bufio.Reader) {
				_, _ = conn.Write(c.sent)
				_, payload := received(t, r)
				said <- payload
			})
			conn, err := d.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Read(func([]byte) error { return nil }); err == nil {
				t.Error("no error")
			}
			if got := <-said; !strings.HasPrefix(got, c.code) {
				t.Errorf("%q, want %q", got, c.code)
			}
		})
	}
}

// TestHandshake: answers that are not those of a WebSocket server.
func TestHandshake(t *testing.T) {
	for header, want := range map[string]string{
		"Sec-WebSocket-Accept: wrong\r\n":                  "not that of a WebSocket server",
		"Sec-WebSocket-Protocol: other\r\n":                "subprotocol",
		"Sec-WebSocket-Extensions: permessage-deflate\r\n": "extension",
	} {
		d := serve(t, header, func(c net.Conn, r *bufio.Reader) { _, _ = r.ReadByte() })
		if _, err := d.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", header, err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not here", http.StatusForbidden)
	}))
	defer s.Close()
	var refused *StatusError
	d := &Dialer{URL: s.URL, Limit: 1, Transport: http.DefaultTransport}
	if _, err := d.Dial(t.Context()); !errors.As(err, &refused) || refused.Status != 403 || refused.Body != "not here\n" {
		t.Errorf("%v", err)
	}
}

// TestCut: Cut ends a Read that waits, and a Write of which nobody takes the bytes.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe() // a write waits until somebody reads
		defer server.Close()
		go func() {
			req, err := http.ReadRequest(bufio.NewReader(server))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(server, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+accept(req)+"\r\n")
		}()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}
		c, err := (&Dialer{URL: "http://server", Limit: 1000, Transport: transport}).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		go func() { ended <- c.Write(make([]byte, 1<<16)) }()
		go func() { ended <- c.Read(func([]byte) error { return nil }) }()
		synctest.Wait() // both wait
		if len(ended) > 0 {
			t.Fatalf("%v before the end", <-ended)
		}
		c.Cut()
		for range 2 {
			if err := <-ended; err == nil {
				t.Error("no error")
			}
		}
	})
}
