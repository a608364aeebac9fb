package front

import (
	"bufio"
	"cmp"
	"net"
	"net/http"
)

// Gate is called before and after each request to an endpoint: limits, a check of the origin, an access log, metrics.
// Routes call it and, by Wrap, handlers of net/http. Loops and any goroutines call its methods concurrently; they must
// not block.
type Gate interface {
	// Enter returns nil, or the answer that refuses the request. A request enters again if its route leaves it to
	// another loop, a goroutine or net/http; it leaves once.
	Enter(q *Request) *Refusal
	// Leave gets the status of the answer: http.StatusSwitchingProtocols if the connection left HTTP,
	// http.StatusInternalServerError after a panic.
	Leave(q *Request, status int)
}

// Refusal is the answer to a request that may not enter: a status and one line of text.
type Refusal struct {
	Status int
	Text   string
}

type open struct{}

func (open) Enter(*Request) *Refusal { return nil }
func (open) Leave(*Request, int)     {}

// Wrap returns a handler that serves the requests that pass the gate.
func Wrap(g Gate, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := FromHTTP(r)
		status := http.StatusInternalServerError // for a panic
		rec := &recorder{ResponseWriter: w}
		defer func() {
			q.Sent = rec.sent
			g.Leave(q, status)
		}()
		if f := g.Enter(q); f != nil {
			status = f.Status
			http.Error(rec, f.Text, status)
			return
		}
		next.ServeHTTP(rec, r)
		status = cmp.Or(rec.status, http.StatusOK)
	})
}

type recorder struct {
	http.ResponseWriter
	status int // 0: there is none yet
	sent   int
}

func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.sent += n
	return n, err
}

// WriteHeader passes on informational answers (100 and 103, for example), too.
func (r *recorder) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Hijack implements http.Hijacker. A connection that is taken after the head of the answer goes on
// with its body.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = cmp.Or(r.status, http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController find Flush and deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
