// Package proxytest has backends for tests, asked by proxies over HTTP or gRPC, which answer well or badly.
package proxytest

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
)

// Carriers are the ways to a backend, as a backend sees them.
var Carriers = []Carrier{{Name: "http"}, {Name: "grpc", grpc: true}}

// Carrier is HTTP/1.1 with JSON, or gRPC, which is HTTP/2 with frames, trailers and Protobuf.
type Carrier struct {
	Name string
	grpc bool
}

// Message is a request or a response. The messages of package message implement it.
type Message interface {
	AppendJSON(dst []byte) ([]byte, error)
	AppendProto(dst []byte) []byte
	UnmarshalJSON(data []byte) error
	UnmarshalProto(data []byte) error
}

// Start starts a backend, which ends with the test.
func (c Carrier) Start(tb testing.TB, h http.HandlerFunc) *httptest.Server {
	s := c.Unstarted(h)
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// Unstarted returns a backend that has an address, and is not started yet.
func (c Carrier) Unstarted(h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config = c.Server(h)
	return s
}

// Server returns a backend that does not listen yet. The context of its requests ends with the
// call.
func (c Carrier) Server(h http.HandlerFunc) *http.Server {
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(!c.grpc)
	s.Protocols.SetUnencryptedHTTP2(c.grpc)
	return s
}

// Endpoint is the endpoint of a backend at an address, for a proxy of an event such as SubRefresh. The backend gets the
// event as the last part of the path.
func (c Carrier) Endpoint(address, event string) string {
	if c.grpc {
		return "grpc://" + address
	}
	return "http://" + address + "/" + event
}

// Read reads a request. A nil one is skipped.
func (c Carrier) Read(r *http.Request, into Message) error {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil || into == nil:
		return err
	case !c.grpc:
		return into.UnmarshalJSON(body)
	case len(body) < frameHead:
		return io.ErrUnexpectedEOF
	}
	return into.UnmarshalProto(body[frameHead:])
}

// frameHead is the length of the head of a message of gRPC: whether it is compressed, and its length.
const frameHead = 5

// Answer answers a call.
func (c Carrier) Answer(w http.ResponseWriter, m Message) {
	body := m.AppendProto(nil)
	if !c.grpc {
		var err error
		if body, err = m.AppendJSON(nil); err != nil {
			panic(err)
		}
	}
	c.Send(w, body, len(body))
}

// Send answers a call with bytes, which are said to be n.
func (c Carrier) Send(w http.ResponseWriter, body []byte, n int) {
	c.head(w)
	if c.grpc {
		_, _ = w.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)))
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(n))
	}
	_, _ = w.Write(body)
	w.(http.Flusher).Flush()
	w.Header().Set("Grpc-Status", "0")
}

// Fail answers a call with a status of HTTP, or one of gRPC.
func (c Carrier) Fail(w http.ResponseWriter, status int, code codes.Code) {
	c.head(w)
	if c.grpc {
		w.Header().Set("Grpc-Status", strconv.FormatUint(uint64(code), 10))
		return
	}
	w.WriteHeader(status)
}

func (c Carrier) head(w http.ResponseWriter) {
	if c.grpc {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
	}
}
