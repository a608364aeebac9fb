package httpstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/front/fronttest"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// emulator notes what comes, and answers by the name of the node.
type emulator struct {
	mu    sync.Mutex
	calls []string
}

func (e *emulator) Emulate(ctx context.Context, node, session string, data []byte) error {
	e.mu.Lock()
	e.calls = append(e.calls, fmt.Sprintf("%s %s %s", node, session, data))
	e.mu.Unlock()
	switch node {
	case "unknown":
		return fmt.Errorf("wrapped: %w", transport.ErrUnknownNode)
	case "full":
		return fmt.Errorf("wrapped: %w", protocol.ErrorLimitExceeded)
	case "broken":
		return errors.New("no answer")
	case "silent":
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

var endpointURL = &url.URL{Path: "/emulation"}

// emulationSite serves an Emulation at /emulation.
type emulationSite struct {
	*emulator
	*fronttest.Site
}

// loopEmulator is a node with one loop, which has the sessions of node a.
type loopEmulator struct {
	*emulator
	transport.Acceptor
	loop *loop.Loop
}

func (e *loopEmulator) NextLoop() transport.Loop { return e.loop.Sockets() }

func (e *loopEmulator) AcceptOn(transport.Loop, context.Context, transport.Conn, transport.Info) (transport.Peer, error) {
	return nil, errors.New("there are no streams")
}

func (e *loopEmulator) EmulateOn(l transport.Loop, node, session string, data []byte) transport.Loop {
	if node != "a" {
		return nil
	}
	_ = e.Emulate(context.Background(), node, session, data)
	return l
}

func (e *loopEmulator) ObserverTotals() *observe.Totals { return nil }

func (e *loopEmulator) Refused(refusal.Refusal, int, error) {}

var _ nodeaccess.Node = (*loopEmulator)(nil)

// How an Emulation is served.
const (
	byHandler    = iota // by net/http alone
	byGoroutines        // by the route, without loops
	byLoops
)

// serveEmulation serves on ln during a test.
func serveEmulation(t testing.TB, ln net.Listener, how int) *emulationSite {
	s := &emulationSite{emulator: new(emulator)}
	var node interface {
		transport.Emulator
		transport.Acceptor
	}
	if how == byLoops {
		l := loop.New()
		go l.Run()
		t.Cleanup(l.Close)
		node = &loopEmulator{emulator: s.emulator, loop: l}
	} else {
		node = struct {
			transport.Emulator
			transport.Acceptor
		}{Emulator: s}
	}
	h := httpstream.NewEmulation(node, httpstream.EmulationConfig{
		MaxRequestBodySize: 1000,
		AllowOrigin:        func(q *front.Request) bool { return q.Get("Origin") == "https://good.example" },
	})
	var routes []front.Route
	if how != byHandler {
		routes = []front.Route{h.Route("/emulation")}
	}
	s.Site = fronttest.ServeOn(node, ln, h, routes...)
	t.Cleanup(s.Close)
	return s
}

// exchange returns the answers to what a client sends on one connection.
func (s *emulationSite) exchange(t *testing.T, parts ...string) []string {
	t.Helper()
	list, err := s.Exchange(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func emulationRequest(body string, fields ...string) string {
	return "POST /emulation HTTP/1.1\r\nHost: a.example\r\n" + strings.Join(append(fields, ""), "\r\n") +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func asProto(r protocol.EmulationRequest) string { return string(r.AppendProto(nil)) }

const (
	toA        = `{"node":"a","session":"s","data":"{\"id\":2,\"rpc\":{}}\n{}"}`
	octets     = "Content-Type: application/octet-stream"
	jsonField  = "Content-Type: application/json"
	goodOrigin = "Origin: https://good.example"
	badOrigin  = "Origin: https://bad.example"
)

// emulations are what clients send; the statuses of the answers; what comes to the node; and how
// many of the requests need net/http.
var emulations = map[string]struct {
	parts    []string
	statuses string
	calls    []string
	served   int64
}{
	"JSON":                 {[]string{emulationRequest(toA, jsonField)}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"no type":              {[]string{emulationRequest(toA)}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"type with parameters": {[]string{emulationRequest(toA, octets+"; a=b")}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"other letter case":    {[]string{emulationRequest(toA, "Content-Type: Application/Octet-Stream")}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"Protobuf":             {[]string{emulationRequest(asProto(protocol.EmulationRequest{Node: "a", Session: "s", Data: []byte{0}}), octets)}, "204", []string{"a s \x00"}, 0},
	"kept connection":      {[]string{emulationRequest(toA), emulationRequest(`{"node":"a","session":"s","data":"{}"}`)}, "204 204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`, `a s "{}"`}, 0},
	"pipelined":            {[]string{strings.Repeat(emulationRequest(`{"node":"a","session":"s","data":"{}"}`), 3)}, "204 204 204", []string{`a s "{}"`, `a s "{}"`, `a s "{}"`}, 0},
	"chunked": {[]string{"POST /emulation HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"2\r\n{}\r\n0\r\n\r\n"}, "204", []string{"  "}, 1},
	"data is no string":      {[]string{emulationRequest(`{"node":"a","session":"s","data":{"id":2}}`)}, "204", []string{`a s {"id":2}`}, 0},
	"unknown node":           {[]string{emulationRequest(`{"node":"unknown","session":"s","data":"{}"}`), emulationRequest(toA)}, "404 204", []string{`unknown s "{}"`, `a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"too much for the node":  {[]string{emulationRequest(`{"node":"full"}`)}, "413", []string{"full  "}, 0},
	"broken node":            {[]string{emulationRequest(`{"node":"broken"}`)}, "500", []string{"broken  "}, 0},
	"garbage":                {[]string{emulationRequest("garbage"), emulationRequest(toA)}, "400 204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 2},
	"two objects":            {[]string{emulationRequest(toA + "\n" + toA)}, "400", nil, 1},
	"half an object":         {[]string{emulationRequest(toA[:20])}, "400", nil, 1},
	"wrong types":            {[]string{emulationRequest(`{"node":1,"session":{},"data":"{}"}`)}, "400", nil, 1},
	"a list":                 {[]string{emulationRequest(`[` + toA + `]`)}, "400", nil, 1},
	"no body":                {[]string{emulationRequest("")}, "400", nil, 1},
	"JSON for Protobuf":      {[]string{emulationRequest(toA, octets)}, "400", nil, 1},
	"Protobuf for JSON":      {[]string{emulationRequest(asProto(protocol.EmulationRequest{Node: "a"}))}, "400", nil, 1},
	"Protobuf with a length": {[]string{emulationRequest("\x05"+asProto(protocol.EmulationRequest{Node: "abc"}), octets)}, "400", nil, 1},
	"long length":            {[]string{emulationRequest("\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", octets)}, "400", nil, 1},
	"deep":                   {[]string{emulationRequest(`{"node":"a","data":` + strings.Repeat("[", 900) + `}`)}, "400", nil, 1},
	"largest":                {[]string{emulationRequest(`{"node":"a"` + strings.Repeat(" ", 988) + `}`)}, "204", []string{"a  "}, 0},
	"too large":              {[]string{emulationRequest(`{"node":"a"` + strings.Repeat(" ", 989) + `}`)}, "413", nil, 1},
	"said to be too large":   {[]string{"POST /emulation HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n{"}, "413", nil, 1},
	"chunks too large": {[]string{"POST /emulation HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"400\r\n" + strings.Repeat(" ", 1024) + "\r\n0\r\n\r\n"}, "413", nil, 1},
	"cut short": {[]string{"POST /emulation HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{}"}, "499", nil, 1},
	"GET":       {[]string{"GET /emulation HTTP/1.1\r\nHost: a\r\n\r\n"}, "405", nil, 1},
	"PUT":       {[]string{strings.Replace(emulationRequest(toA), "POST", "PUT", 1)}, "405", nil, 1},
	"OPTIONS":   {[]string{"OPTIONS /emulation HTTP/1.1\r\nHost: a\r\n\r\n"}, "204", nil, 1},
	"preflight": {[]string{"OPTIONS /emulation HTTP/1.1\r\nHost: a\r\n" + goodOrigin + "\r\nAccess-Control-Request-Method: POST\r\n" +
		"Access-Control-Request-Headers: content-type\r\n\r\n"}, "204", nil, 1},
	"good origin":    {[]string{emulationRequest(toA, goodOrigin)}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"good, unknown":  {[]string{emulationRequest(`{"node":"unknown"}`, goodOrigin)}, "404", []string{"unknown  "}, 0},
	"good, asks":     {[]string{emulationRequest(toA, goodOrigin, "Access-Control-Request-Headers: a,b")}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"good, null":     {[]string{emulationRequest(toA, goodOrigin, "Access-Control-Request-Headers: null")}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"good, asks lot": {[]string{emulationRequest(toA, goodOrigin, "Access-Control-Request-Headers: "+strings.Repeat("x", 10_000)), emulationRequest(toA)}, "204 204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`, `a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"bad origin":     {[]string{emulationRequest(toA, badOrigin)}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
	"HTTP/1.0":       {[]string{strings.Replace(emulationRequest(toA), "1.1", "1.0", 1)}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 1},
	"close":          {[]string{emulationRequest(toA, "Connection: close")}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 1},
	"upgrade":        {[]string{emulationRequest(toA, "Connection: Upgrade", "Upgrade: websocket")}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 1},
	"expectation":    {[]string{emulationRequest(`x`, "Expect: 100-continue")}, "100 400", nil, 1},
	"query":          {[]string{strings.Replace(emulationRequest(toA), "emulation", "emulation?a=b", 1)}, "204", []string{`a s "{\"id\":2,\"rpc\":{}}\n{}"`}, 0},
}

// Requests are answered as the specification says, and the route answers like net/http.
func TestEmulation(t *testing.T) {
	for name, e := range emulations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [byLoops + 1][]string
			for how := range got {
				s := serveEmulation(t, fronttest.Listen(t), how)
				got[how] = s.exchange(t, e.parts...)
				var statuses []string
				for _, text := range got[how] {
					statuses = append(statuses, text[:3])
				}
				if text := strings.Join(statuses, " "); text != e.statuses {
					t.Errorf("way %d: statuses %s, want %s: %q", how, text, e.statuses, got[how])
				}
				s.mu.Lock()
				if diff := cmp.Diff(e.calls, s.calls); diff != "" {
					t.Errorf("way %d: calls\n%s", how, diff)
				}
				s.mu.Unlock()
				if n := s.Served.Load(); how != byHandler && n != e.served {
					t.Errorf("%d requests passed net/http, want %d", n, e.served)
				}
			}
			for _, how := range []int{byGoroutines, byLoops} {
				if diff := cmp.Diff(got[byHandler], got[how]); diff != "" {
					t.Errorf("answers without route (-) and with it, way %d (+):\n%s", how, diff)
				}
			}
		})
	}
}

// Pages of allowed origins alone may read answers.
func TestEmulationCORS(t *testing.T) {
	for _, how := range []int{byHandler, byGoroutines, byLoops} {
		testEmulationCORS(t, serveEmulation(t, fronttest.Listen(t), how))
	}
}

func testEmulationCORS(t *testing.T, s *emulationSite) {
	answer := func(text string) string {
		t.Helper()
		list := s.exchange(t, text)
		if len(list) != 1 {
			t.Fatalf("%q", list)
		}
		return list[0]
	}
	const allowed = "Access-Control-Allow-Credentials:[true] Access-Control-Allow-Origin:[https://good.example]"
	if a := answer(emulationRequest(toA, goodOrigin)); a != "204 No Content map["+allowed+" Date:[now] Vary:[Origin]] 0 false \"\"" {
		t.Errorf("%q", a)
	}
	if a := answer(emulationRequest(toA, badOrigin)); a != "204 No Content map[Date:[now]] 0 false \"\"" {
		t.Errorf("%q", a)
	}
	preflight := "OPTIONS /emulation HTTP/1.1\r\nHost: a\r\nOrigin: https://good.example\r\nAccess-Control-Request-Headers: content-type\r\n\r\n"
	want := "204 No Content map[Access-Control-Allow-Credentials:[true] Access-Control-Allow-Headers:[content-type] Access-Control-Allow-Methods:[POST, OPTIONS] " +
		"Access-Control-Allow-Origin:[https://good.example] Access-Control-Max-Age:[300] Date:[now] Vary:[Origin]] 0 false \"\""
	if a := answer(preflight); a != want {
		t.Errorf("%q", a)
	}
	if a := answer(strings.Replace(preflight, "good", "bad", 1)); a != "204 No Content map[Access-Control-Allow-Methods:[POST, OPTIONS] Access-Control-Max-Age:[300] Date:[now]] 0 false \"\"" {
		t.Errorf("%q", a)
	}
	if a := answer(strings.Replace(emulationRequest(toA), "POST", "DELETE", 1)); !strings.Contains(a, "Allow:[POST, OPTIONS]") {
		t.Errorf("%q", a)
	}
}

// A node that does not answer is told of, although the server's time to write has passed. A body
// that comes slowly ends in bounded time.
func TestEmulationTakesLong(t *testing.T) {
	for _, test := range []struct {
		name, request string
		how           int
		status        string
		after         time.Duration
	}{
		{"silent node", emulationRequest(`{"node":"silent"}`), byHandler, "500", 10 * time.Second},
		{"silent node, route", emulationRequest(`{"node":"silent"}`), byGoroutines, "500", 10 * time.Second},
		{"slow body", emulationRequest(toA)[:100], byHandler, "499", 30 * time.Second},
		{"slow body, route", emulationRequest(toA)[:100], byGoroutines, "499", 31 * time.Second},
		{"slow chunks", "POST /emulation HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{", byGoroutines, "499", 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := fronttest.NewPipes()
				s := serveEmulation(t, p, test.how)
				client := p.Dial()
				defer client.Close()
				began := time.Now()
				go func() { _, _ = io.WriteString(client, test.request) }()
				text, _, err := fronttest.Answer(bufio.NewReader(client))
				if err != nil || !strings.HasPrefix(text, test.status) {
					t.Errorf("%q, %v", text, err)
				}
				if took := time.Since(began); took < test.after || took > test.after+time.Second {
					t.Errorf("took %v, want %v", took, test.after)
				}
				if s.mu.Lock(); test.status != "500" && len(s.calls) > 0 {
					t.Errorf("calls %q", s.calls)
				}
				s.mu.Unlock()
			})
		})
	}
}

// Anything that comes is answered with a status of the specification, and reaches the node only as
// what the decoders of protocol understand.
func FuzzEmulation(f *testing.F) {
	f.Add(true, []byte(toA))
	f.Add(false, []byte(asProto(protocol.EmulationRequest{Node: "a", Session: "s", Data: []byte{0}})))
	f.Add(true, []byte(toA+toA))
	f.Fuzz(func(t *testing.T, asJSON bool, body []byte) {
		s := new(emulator)
		r := httpstream.NewEmulation(s, httpstream.EmulationConfig{}).Route("/emulation")
		q := &front.Request{Method: http.MethodPost}
		var req protocol.EmulationRequest
		err := req.UnmarshalJSON(body)
		if !asJSON {
			q = front.FromHTTP(&http.Request{Method: http.MethodPost, URL: endpointURL, Header: http.Header{"Content-Type": {"application/octet-stream"}}})
			err = req.UnmarshalProto(body)
		}
		if req.Node == "silent" {
			return
		}
		status, out := r.Answer(t.Context(), q, nil, body, nil)
		switch {
		case len(out) > 0:
			t.Errorf("body %q", out)
		case err != nil && (status != 0 || len(s.calls) > 0):
			t.Errorf("%q: status %d, calls %q; but %v", body, status, s.calls, err)
		case err == nil && (len(s.calls) != 1 || s.calls[0] != fmt.Sprintf("%s %s %s", req.Node, req.Session, req.Data)):
			t.Errorf("%q: status %d, calls %q", body, status, s.calls)
		}
	})
}
