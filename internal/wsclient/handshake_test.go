package wsclient

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// The key of RFC 6455, and what servers answer to it.
const (
	sampleKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	sampleAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// TestParseAnswer: only the answer of a WebSocket server opens a connection, once all of it has come.
func TestParseAnswer(t *testing.T) {
	const answer = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nServer: x\r\nSec-WebSocket-Accept:" + sampleAccept + " \r\n"
	for i := range len(answer + "\r\n") {
		if n, err := ParseAnswer([]byte(answer + "\r\n")[:i], sampleKey, ""); n != 0 || err != nil {
			t.Errorf("%d bytes: %d %v", i, n, err)
		}
	}
	for _, protocol := range []string{"", "p"} {
		whole := answer + "\r\n"
		if protocol != "" {
			whole = answer + "Sec-WebSocket-Protocol: p\r\n\r\n"
		}
		if n, err := ParseAnswer([]byte(whole+"\x81\x00"), sampleKey, protocol); n != len(whole) || err != nil {
			t.Error(n, err)
		}
	}
	for bad, want := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\n\r\n":                                "status 403 Forbidden",
		"SSH-2.0\r\n\r\n":                                               "not that of a WebSocket server",
		strings.Replace(answer, sampleAccept, "x", 1) + "\r\n":          "not that of a WebSocket server",
		strings.Replace(answer, "WebSocket\r\n", "h2c\r\n", 1) + "\r\n": "not that of a WebSocket server",
		answer + "Sec-WebSocket-Protocol: p\r\n\r\n":                    "subprotocol",
		answer + "Sec-WebSocket-Extensions: e\r\n\r\n":                  "extension",
		strings.Repeat("x", maxAnswer+1):                                "more than",
	} {
		if n, err := ParseAnswer([]byte(bad), sampleKey, ""); n != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %d %v, want %q", bad, n, err, want)
		}
	}
	if _, err := ParseAnswer([]byte("HTTP/1.1 503 x\r\n\r\n"), sampleKey, ""); !errors.As(err, new(*StatusError)) {
		t.Error(err)
	}
}

// TestAppendRequest: it says the same as the request of a Dialer.
func TestAppendRequest(t *testing.T) {
	for _, protocol := range []string{"", "p"} {
		want := http.Header{"X-Own": {"1", "2"}}
		request := AppendRequest([]byte("before"), "host:1", "/path?q=1", sampleKey, protocol, want)[len("before"):]
		got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
		if err != nil {
			t.Fatal(err)
		}
		asks(want, sampleKey, protocol)
		if got.Method != http.MethodGet || got.Host != "host:1" || got.RequestURI != "/path?q=1" || len(got.Header) != len(want) {
			t.Errorf("%+v", got)
		}
		for name := range want {
			if strings.Join(got.Header[name], ",") != strings.Join(want[name], ",") {
				t.Errorf("%s: %q, want %q", name, got.Header[name], want[name])
			}
		}
	}
}
