package proxytest

import (
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
)

// Fault is a fault of a backend that has read a call.
type Fault struct {
	Name       string
	Do         func(c Carrier, w http.ResponseWriter, r *http.Request)
	HTTP, GRPC string
	Slow       bool
	// HTTPDown and GRPCDown: the error says that the backend is down, not only that its answer is of no use.
	HTTPDown, GRPCDown bool
}

const (
	late   = "did not answer within the timeout"
	closed = "closed the connection before the end of its answer"
	reset  = "RST_STREAM"
	syntax = "is not the JSON that is expected"
)

const large = 16<<20 + 1

// Faults are all kinds.
var Faults = []Fault{
	{Name: "says nothing", HTTP: late, GRPC: late, Slow: true, Do: func(_ Carrier, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{Name: "stops in the middle", HTTP: late, GRPC: late, Slow: true, Do: func(c Carrier, w http.ResponseWriter, r *http.Request) {
		c.Send(w, []byte("{"), 10)
		<-r.Context().Done()
	}},
	{Name: "is cut off", HTTPDown: true, HTTP: closed, GRPC: reset, Do: func(Carrier, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	{Name: "is cut off in the middle", HTTPDown: true, HTTP: closed, GRPC: reset, Do: func(c Carrier, w http.ResponseWriter, _ *http.Request) {
		c.Send(w, []byte("{"), 10)
		panic(http.ErrAbortHandler)
	}},
	status("500", 500, codes.Internal, "code = Internal"),
	down(status("503", 503, codes.Unavailable, "code = Unavailable")),
	status("404", 404, codes.Unimplemented, "code = Unimplemented"),
	down(status("504", 504, codes.DeadlineExceeded, late)),
	status("409", 409, codes.Aborted, "code = Aborted"),
	{Name: "204", HTTP: "status 204", GRPC: "code = Unknown", Do: func(_ Carrier, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	page("HTML", http.StatusOK, syntax, "code = Unknown"),
	down(page("HTML of a gateway", http.StatusBadGateway, "status 502", "code = Unavailable")),
	{Name: "no message", HTTP: syntax, GRPC: "code = Internal", Do: func(c Carrier, w http.ResponseWriter, _ *http.Request) {
		c.Fail(w, http.StatusOK, codes.OK)
	}},
	{Name: "garbage", HTTP: syntax, GRPC: "code = Internal", Do: func(c Carrier, w http.ResponseWriter, _ *http.Request) {
		c.Send(w, []byte("\xff\xff\xff\xff"), 4)
	}},
	{Name: "wrong types", HTTP: syntax, GRPC: "code = Internal", Do: func(c Carrier, w http.ResponseWriter, _ *http.Request) {
		body := []byte(`{"result":"yes"}`)
		if c.grpc {
			body = []byte{1<<3 | 2, 2, 2<<3 | 2, 100} // the result has 2 bytes, a text in it has 100
		}
		c.Send(w, body, len(body))
	}},
	{Name: "too large", HTTP: "body size exceeds", GRPC: "code = ResourceExhausted", Do: func(c Carrier, w http.ResponseWriter, _ *http.Request) {
		c.Send(w, []byte("{"), large)
	}},
}

func status(name string, status int, code codes.Code, want string) Fault {
	return Fault{Name: name, HTTP: "status " + name, GRPC: want, Do: func(c Carrier, w http.ResponseWriter, _ *http.Request) { c.Fail(w, status, code) }}
}

func down(f Fault) Fault {
	f.HTTPDown, f.GRPCDown = true, true
	return f
}

// Down tells whether the fault says that the backend is down.
func (f *Fault) Down(c Carrier) bool { return c.grpc && f.GRPCDown || !c.grpc && f.HTTPDown }

func page(name string, status int, http1, want string) Fault {
	return Fault{Name: name, HTTP: http1, GRPC: want, Do: func(_ Carrier, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>Welcome</html>")
	}}
}

// Error is part of the error that a call over a carrier has.
func (f *Fault) Error(c Carrier) string {
	if c.grpc {
		return f.GRPC
	}
	return f.HTTP
}
