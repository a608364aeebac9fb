// Package httpstream is the transport of clients that cannot use WebSocket: the answer to one HTTP request goes on
// for as long as the client is connected. A Kind says how messages look in it, and whether the client sends commands,
// by requests of their own.
//
// On Linux, connections over HTTP/1.1 live on the loops of the node, without a goroutine and, while idle, without a
// buffer; with TLS they do if a listener of package front serves them. Over HTTP/2 and HTTP/3, and on other systems,
// each has a goroutine.
package httpstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/internal/random"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream/internal/endpoint"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/internal/refuse"
)

// Config of a Handler. The zero value is ready to use.
type Config struct {
	// MaxRequestBodySize is the most bytes of a request's body. The answer to larger ones is
	// 413. Default: 65536.
	MaxRequestBodySize int
	// WriteTimeout is how long the client may block one write before the connection ends with
	// protocol.DisconnectWriteError. Default: 1 s.
	WriteTimeout time.Duration
	// CloseTimeout is how long the client may take to close the connection after the end of the answer. Default: 5 s.
	CloseTimeout time.Duration
	// StaleTimeout is how long a client may stay after an error for its connect command, before it gets
	// protocol.DisconnectStale. Default: 15 s.
	StaleTimeout time.Duration
	// PollTimeout is how long a UniPoll request waits. Default: 25 s.
	PollTimeout time.Duration
	// RetryMin and RetryMax are the range of the time after which a UniSSE client comes back. Each connection is told
	// another time, so that not all clients of a node come back at once. Default: 0, they are told nothing.
	RetryMin, RetryMax time.Duration
	// AllowOrigin reports whether pages of the request's origin may read the answer, which then has the fields of CORS.
	// Others are served as well, but browsers hide the answer. It is called for requests with an Origin field, on loops
	// and any goroutines, concurrently, and must not block. Default: none may.
	AllowOrigin func(q *front.Request) bool
	// ConnectAnswers are the answers to connect requests of the one-way kinds that fail, by the code of the error or
	// disconnect; all other failures get 500. A stream then begins when the client has connected, and has a goroutine.
	// Default: nil, all streams begin at once with status 200, and end with a disconnect push if connecting fails.
	ConnectAnswers map[uint32]ConnectAnswer
}

// ConnectAnswer is the answer to a connect request that failed.
type ConnectAnswer struct {
	Status int
	// Body, as plain text. Default: the message of the error, or the reason of the disconnect.
	Body string
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxRequestBodySize, 64<<10)
	setDefault(&c.WriteTimeout, time.Second)
	setDefault(&c.CloseTimeout, 5*time.Second)
	setDefault(&c.StaleTimeout, 15*time.Second)
	setDefault(&c.PollTimeout, 25*time.Second)
	return c
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Handler answers requests with streams of one kind, and hands their connections to an acceptor. It is safe for
// concurrent use and fits any router. http.Server bounds the time to read a request.
//
// Over HTTP/1 the handler takes the connection from the server once the head of the answer is sent, and returns.
// http.Server.Shutdown does not wait for such connections; shutting down the node does. If that is not possible, and
// with other versions of HTTP, the handler returns when the stream has ended.
type Handler struct {
	traits   *traits
	acceptor transport.Acceptor
	cfg      Config
	endpoint endpoint.Config
	refuser  refuse.Refuser
}

// NewHandler returns a handler for streams of a kind. The acceptor gets a context with the values of the request's,
// which is never done.
func NewHandler(k Kind, acceptor transport.Acceptor, cfg Config) *Handler {
	cfg = cfg.withDefaults()
	t := &kinds[k]
	refuser := refuse.Refuser{Acceptor: acceptor, Kind: "HTTP stream refused", Allow: t.allowed()}
	return &Handler{traits: t, acceptor: acceptor, cfg: cfg, refuser: refuser, endpoint: endpoint.Config{
		OneWay:   t.mode == transport.OneWay,
		Timeouts: transport.Timeouts{Write: cfg.WriteTimeout, Await: cfg.StaleTimeout, Close: cfg.CloseTimeout},
	}}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := front.FromHTTP(r)
	cors(h.cfg.AllowOrigin).set(q, w.Header())
	if r.Method == http.MethodOptions && !h.traits.events() {
		preflight(w, postMethods)
		return
	}
	o, refused := h.receive(w, r, q)
	if refused == nil && h.traits.polls {
		h.answerPoll(w, r, q, &o)
		return
	}
	if refused == nil {
		refused = h.bound(w)
	}
	if refused != nil {
		h.refuse(w, r, q, refused)
		return
	}
	if h.answersConnect() {
		h.openChecked(w, r, q, &o)
		return
	}
	if h.begin(w, r) != nil {
		return // the client has gone
	}
	nc := takeOver(w, r)
	f := framing.Of(h.traits.formatOf(o.encoding), nc != nil && r.ProtoAtLeast(1, 1))
	candidate := h.candidate(context.WithoutCancel(r.Context()), q, &o, f)
	if nc == nil {
		driver.NewStreamConn(netio.NewStream(newResponses(w, r)), endpoint.New(&h.endpoint, f)).Serve(h.acceptor, candidate, false)
		return
	}
	driver.Serve(h.acceptor, netio.NewStream(nc), endpoint.New(&h.endpoint, f), candidate)
}

func (h *Handler) candidate(ctx context.Context, q *front.Request, o *opening, f *framing.Framer) driver.Candidate {
	return driver.Candidate{Ctx: ctx, Message: o.commands, Info: transport.Info{
		Name: h.traits.name, Framer: f, Header: q.Header(), RemoteAddr: q.RemoteAddr, HTTP: q.HTTP,
		Mode: h.traits.mode, Connect: o.connect, Repeated: o.repeated, DisconnectPush: true, Bookmarks: h.traits.bookmarks,
	}}
}

// bound bounds the time to write the head. It fails if middleware hides the server's http.ResponseWriter.
func (h *Handler) bound(w http.ResponseWriter) *refuse.Refusal {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout))
	if !errors.Is(err, http.ErrNotSupported) {
		return nil // if there is another error, writing fails, too
	}
	return &refuse.Refusal{Status: http.StatusInternalServerError, Text: "the http.ResponseWriter of a middleware has neither SetWriteDeadline " +
		"nor Unwrap: give it the method Unwrap() http.ResponseWriter, which returns the one that it wraps"}
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) error {
	header := w.Header()
	for _, f := range fields {
		header.Set(f.name, f.value)
	}
	if r.ProtoMajor == 1 {
		header.Set("Connection", "close")
	}
	if h.traits.events() {
		header.Set("Content-Type", eventStream)
	} else {
		header["Content-Type"] = nil // net/http must not guess
	}
	w.WriteHeader(http.StatusOK)
	if h.traits.events() {
		if _, err := w.Write(h.appendPrelude(nil)); err != nil {
			return err
		}
	}
	return http.NewResponseController(w).Flush()
}

// takeOver takes the connection of HTTP/1 from the server, which has sent the head. Nil: that is not possible, or
// middleware encodes the body.
func takeOver(w http.ResponseWriter, r *http.Request) net.Conn {
	if r.ProtoMajor != 1 || w.Header().Get("Content-Encoding") != "" {
		return nil
	}
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	return nc
}

// fields keep proxies from holding the answer back.
var fields = []struct{ name, value string }{
	{"X-Accel-Buffering", "no"},
	{"Cache-Control", "private, no-cache, no-store, must-revalidate, max-age=0"},
	{"Pragma", "no-cache"},
	{"Expire", "0"},
}

const eventStream = "text/event-stream; charset=utf-8"

func (h *Handler) appendPrelude(b []byte) []byte {
	b = append(b, "\r\n"...)
	if h.traits.bookmarks == 0 || h.cfg.RetryMax <= 0 {
		return b // an SDK decides itself
	}
	retry := h.cfg.RetryMin + random.N(max(h.cfg.RetryMax-h.cfg.RetryMin, 0)+1)
	return append(strconv.AppendInt(append(b, "retry: "...), retry.Milliseconds(), 10), "\n\n"...)
}
