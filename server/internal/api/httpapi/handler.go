// Package httpapi serves the server API over HTTP (docs/http-api.md).
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/rights"
)

// DefaultMaxBodySize keeps a bug of a backend from using up the server's memory. Centrifugo has no limit.
const DefaultMaxBodySize = 64 << 20

// Config of the HTTP API.
type Config struct {
	// Prefix of all paths, such as "/api"; "" is "/".
	Prefix string
	// Guard returns the guard in force, which knows keys, tokens and their rights; each request calls it. Default: every
	// request is refused.
	Guard func() *rights.Guard
	// ErrorMode is "" (errors in answers of status 200) or "transport" (errors as status), which a header can request.
	ErrorMode string
	// MaxBodySize is in bytes; larger requests get 413. 0: DefaultMaxBodySize.
	MaxBodySize int64
	// ShuttingDown, if set, makes the legacy endpoint answer 503.
	ShuttingDown func() bool
	Observer     api.Observer
	Tracer       api.Tracer
	// Operators are further endpoints for POST, by the last part of their path, for senders with all rights.
	Operators map[string]http.Handler
	// Logger gets refusals, and answers that cannot be encoded. It is wrapped by logging.Wrap.
	Logger *slog.Logger
}

// Handler serves all paths of the API, under Patterns on a mux or alone.
type Handler struct {
	exec      *api.Executor
	guard     func() *rights.Guard
	transport bool
	maxBody   int64
	closing   func() bool
	observed  api.Observed
	tracer    api.Tracer // nil: requests are not traced
	refusals  refusal.Reporter

	prefix string
	routes map[string]route
}

// route serves a path, with the executor of the sender.
type route func(w http.ResponseWriter, r *http.Request, exec *api.Executor)

// New returns a handler, or an error for a Config that cannot work.
func New(exec *api.Executor, c Config) (*Handler, error) {
	if exec == nil {
		return nil, errors.New("httpapi: an executor is required")
	}
	if c.ErrorMode != "" && c.ErrorMode != modeTransport {
		return nil, fmt.Errorf(`http_api.error_mode: %q is neither "" nor "transport"`, c.ErrorMode)
	}
	if strings.ContainsAny(c.Prefix, "{} \t\r\n?#") {
		return nil, fmt.Errorf("http_api.handler_prefix: %q is not a path", c.Prefix)
	}
	h := &Handler{
		exec: exec, guard: c.Guard, transport: c.ErrorMode == modeTransport,
		maxBody: c.MaxBodySize, closing: c.ShuttingDown,
		observed: api.Observed{By: c.Observer}, tracer: c.Tracer, refusals: refusal.Reporter{Log: logging.Wrap(c.Logger)},
		prefix: "/" + strings.Trim(c.Prefix, "/"), routes: make(map[string]route),
	}
	if h.guard == nil {
		closed, err := rights.New(rights.Config{Section: "http_api"})
		if err != nil {
			return nil, err
		}
		h.guard = func() *rights.Guard { return closed }
	}
	if h.maxBody <= 0 {
		h.maxBody = DefaultMaxBodySize
	}
	if h.closing == nil {
		h.closing = func() bool { return false }
	}
	for _, m := range api.Methods() {
		h.routes[h.path(m)] = func(w http.ResponseWriter, r *http.Request, exec *api.Executor) {
			h.serveMethod(w, r, exec, m)
		}
	}
	for name, operator := range c.Operators {
		h.routes[strings.TrimSuffix(h.prefix, "/")+"/"+name] = func(w http.ResponseWriter, r *http.Request, exec *api.Executor) {
			h.serveOperator(w, r, exec, operator)
		}
	}
	h.routes[h.prefix] = h.serveLegacyEndpoint
	return h, nil
}

func (h *Handler) path(m api.Method) string {
	return strings.TrimSuffix(h.prefix, "/") + "/" + m.String()
}

// Patterns returns the patterns for http.ServeMux: the path of each method, and the prefix. The pattern "/" also gets
// requests that no other handler has.
func (h *Handler) Patterns() []string {
	patterns := make([]string, 0, len(h.routes))
	for p := range h.routes {
		patterns = append(patterns, p)
	}
	return patterns
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve, ok := h.routes[r.URL.Path]
	switch {
	case ok:
	case h.prefix == "/":
		serve = h.serveLegacyEndpoint
	default:
		http.Error(w, "404 page not found: the server API has a path for each method, such as "+h.path(api.MethodPublish), http.StatusNotFound)
		return
	}
	// The method comes before the key: 405 tells no secret.
	if !onlyMethod(w, r, http.MethodPost) {
		return
	}
	exec, err := h.admit(r)
	if err != nil {
		h.unauthorized(w, r, err)
		return
	}
	serve(w, r, exec)
}

// serveOperator refuses senders without all rights.
func (h *Handler) serveOperator(w http.ResponseWriter, r *http.Request, exec *api.Executor, operator http.Handler) {
	if exec == h.exec {
		operator.ServeHTTP(w, r)
		return
	}
	const text = "this is only for senders with all rights, such as senders with http_api.key"
	h.refuse(r, http.StatusForbidden, "http_api.key", text)
	hangUp(w, r)
	http.Error(w, "Forbidden: "+text, http.StatusForbidden)
}

func (h *Handler) refuse(r *http.Request, status int, key, text string) {
	answer := errors.New(http.StatusText(status))
	h.refusals.Report(refusal.Refusal{Kind: "API request refused", Addr: r.RemoteAddr, Path: r.URL.Path},
		uint32(status), refusal.Because(answer, key, text))
}

// hangUp ends the connection of a request with an unread body, which the server would otherwise wait for over HTTP/1.1.
func hangUp(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // else it waits longer
	}
}

func onlyMethod(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method {
		return true
	}
	w.Header().Set("Allow", method)
	w.WriteHeader(http.StatusMethodNotAllowed)
	return false
}

func (h *Handler) serveMethod(w http.ResponseWriter, r *http.Request, exec *api.Executor, m api.Method) {
	body := getBuffer(r.ContentLength)
	defer putBuffer(body)
	if !h.readBody(w, r, body) {
		h.failed(r, m, api.StageRead)
		return
	}
	req := m.NewRequest()
	if err := req.UnmarshalJSON(body.b); err != nil {
		h.failed(r, m, api.StageDecode)
		h.badRequest(w, r, "the body is not the JSON object of a "+m.String()+" request: "+err.Error())
		return
	}
	// The request holds copies, so the buffer is free for the answer.
	status, out := h.execute(r.Context(), exec, m, req, body.b[:0], h.transport || wantsTransport(r.Header), r.Header)
	body.b = out
	if status == http.StatusInternalServerError && len(out) == 0 {
		writeText(w, status)
		return
	}
	writeJSON(w, status, out)
}

// failed reports a failure before the execution.
func (h *Handler) failed(r *http.Request, m api.Method, s api.Stage) {
	h.observed.Failed(m, s)
	if h.tracer != nil {
		h.tracer.Failed(r.Context(), m, s, r.Header)
	}
}

// execute appends the answer to out. An answer that cannot be encoded is empty, with status 500. from has the fields of
// the request.
func (h *Handler) execute(
	ctx context.Context, exec *api.Executor, m api.Method, req api.Request, out []byte, transport bool, from api.Fields,
) (int, []byte) {
	if h.tracer == nil {
		res, err := h.observed.Execute(ctx, exec, m, req)
		return h.encode(ctx, m, res, err, out, transport)
	}
	ctx, span := h.tracer.Begin(ctx, m, req, from)
	defer span.Abort()
	res, err := h.observed.Execute(ctx, exec, m, req)
	status, out := h.encode(ctx, m, res, err, out, transport)
	span.End(status, res, err)
	return status, out
}

func (h *Handler) encode(ctx context.Context, m api.Method, res api.Result, err error, out []byte, transport bool) (int, []byte) {
	if err != nil {
		apiErr := api.AsError(err)
		if transport {
			return httpStatus(apiErr), api.AppendError(out, apiErr)
		}
		return http.StatusOK, append(api.AppendError(append(out, `{"error":`...), apiErr), '}')
	}
	if m == api.MethodBatch {
		out, err = res.AppendJSON(out)
	} else {
		out, err = res.AppendJSON(append(out, `{"result":`...))
		out = append(out, '}')
	}
	if err != nil {
		h.observed.Failed(m, api.StageEncode)
		h.refusals.Log.ErrorContext(ctx, "API answer cannot be encoded", "method", m.String(), "error", err)
		return http.StatusInternalServerError, out[:0]
	}
	return http.StatusOK, out
}
