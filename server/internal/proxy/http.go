package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

const (
	// maxAnswer is the largest body of an answer, in bytes.
	maxAnswer = 16 << 20
	// maxHead is the largest head of an answer, in bytes.
	maxHead = 32 << 10
	// maxInterim is the largest number of interim answers (1xx) before an answer.
	maxInterim = 8
)

// httpCarrier asks a backend over HTTP/1.1 with fasthttp: with net/http, a connection has two goroutines, and a call
// costs twice as much.
type httpCarrier struct {
	conns      *pool
	endpoint   *fasthttp.URI
	static     map[string]string
	transforms []config.StatusTransform
	forward    *forward
	tracer     Tracer // nil: calls are not traced
	// head is the head of requests without forwarded headers and spans, before and after the length of the body. Copying
	// it takes a tenth of the time that fasthttp takes to make one.
	head [2][]byte
}

// exchange is the attempt of httpCarrier, with its memory.
type exchange struct {
	carrier *httpCarrier

	req  fasthttp.Request
	res  fasthttp.Response
	body []byte
	text text // of the request
}

type text []byte

func (t *text) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	return len(p), nil
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// keepBody is the largest buffer that is kept for the next call.
const keepBody = 64 << 10

func newHTTP(c *config.Proxy, f *forward, t Tracer) (*httpCarrier, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("endpoint: it is not a URL with a host")
	}
	h := &httpCarrier{static: c.HTTP.StaticHeaders, transforms: c.HTTP.StatusToCodeTransforms, forward: f, tracer: t, endpoint: new(fasthttp.URI)}
	if err := h.endpoint.Parse(nil, []byte(c.Endpoint)); err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	h.endpoint.DisablePathNormalizing = true // the path stays as it is in the configuration
	port, secure := "80", (*tls.Config)(nil)
	if u.Scheme == "https" {
		port = "443"
		if secure, err = c.HTTP.TLS.ClientConfig(); err != nil {
			return nil, fmt.Errorf("http.tls.%w", err)
		}
		if secure == nil {
			secure = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if secure.ServerName == "" {
			secure.ServerName = u.Hostname()
		}
	}
	if u.Port() != "" {
		port = u.Port()
	}
	h.conns = newPool(u.Hostname(), port, secure)
	return h, h.prepareHead()
}

func (h *httpCarrier) prepareHead() error {
	if h.tracer != nil {
		return nil
	}
	var x exchange
	h.fill(context.Background(), &x.req, nil, nil)
	if _, err := x.req.WriteTo(&x.text); err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	const name = "\r\nContent-Length: "
	before, behind, _ := bytes.Cut(x.text, []byte(name+"0"))
	h.head = [2][]byte{append(before, name...), behind}
	return nil
}

func (h *httpCarrier) close() { h.conns.close() }

func (h *httpCarrier) prepare(req Request) (attempt, error) {
	x := exchanges.Get().(*exchange)
	x.carrier = h
	var err error
	if x.body, err = req.AppendJSON(x.body[:0]); err != nil {
		x.release()
		return nil, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	return x, nil
}

// send replaces connections that were closed while they were idle, and, once, a connection that is closed when the
// request is written. A request that may have reached the backend is not sent again.
func (x *exchange) send(ctx context.Context, deadline time.Time, from *From, res Response) error {
	h := x.carrier
	if err := h.write(ctx, x, from); err != nil {
		return err
	}
	err := h.exchange(ctx, deadline, x)
	for again := true; errors.Is(err, errStale) || errors.Is(err, errUnsent) && again; { // the pool has fewer such connections each time
		again = again && errors.Is(err, errStale)
		err = h.exchange(ctx, deadline, x)
	}
	var network interface{ Timeout() bool }
	switch {
	case errors.As(err, &network) && network.Timeout():
		return errTimeout
	case err != nil:
		return err
	case x.res.StatusCode() != fasthttp.StatusOK:
		return h.transform(x.res.StatusCode(), res)
	}
	if err := res.UnmarshalJSON(x.res.Body()); err != nil {
		return fmt.Errorf("%w: %w", errBody, err)
	}
	return nil
}

func (x *exchange) release() {
	if cap(x.body) > keepBody || cap(x.text) > keepBody || len(x.res.Body()) > keepBody {
		return
	}
	x.req.SetBodyRaw(nil)
	x.carrier = nil
	exchanges.Put(x)
}

func (h *httpCarrier) write(ctx context.Context, x *exchange, from *From) error {
	if x.text = x.text[:0]; from == nil && h.tracer == nil {
		x.text = strconv.AppendInt(append(x.text, h.head[0]...), int64(len(x.body)), 10)
		x.text = append(append(x.text, h.head[1]...), x.body...)
		return nil
	}
	h.fill(ctx, &x.req, from, x.body)
	_, err := x.req.WriteTo(&x.text)
	return err
}

func (h *httpCarrier) fill(ctx context.Context, r *fasthttp.Request, from *From, body []byte) {
	r.Reset()
	r.SetURI(h.endpoint)
	head := &r.Header
	head.SetMethod(fasthttp.MethodPost)
	for name, value := range h.static {
		head.Set(name, value)
	}
	h.forward.fields(from, func(name string, values []string) {
		head.Del(name)
		for _, v := range values {
			head.Add(name, v)
		}
	})
	if h.tracer != nil {
		h.tracer.Inject(ctx, head.Set)
	}
	head.SetContentType("application/json")
	r.SetBodyRaw(body)
}

func (h *httpCarrier) exchange(ctx context.Context, deadline time.Time, x *exchange) error {
	c, err := h.conns.get(ctx, deadline)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(deadline); err != nil {
		h.conns.drop(c)
		return err
	}
	// If the client goes, a deadline in the past ends the call.
	stop := afterFunc(ctx, func() { _ = c.SetDeadline(past) })
	err = c.exchange(x)
	if !stop() || err != nil || x.res.ConnectionClose() || bodyless(x.res.StatusCode()) {
		h.conns.drop(c)
	} else {
		h.conns.put(c)
	}
	return err
}

// afterFunc is context.AfterFunc. The context of a client has a method that takes a fifth of its time.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return c.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// bodyless tells whether an answer has no body. A backend may send one nevertheless, which must not be read as the next
// answer: the connection is closed.
func bodyless(status int) bool {
	return status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified
}

var past = time.Unix(1, 0)

// transform sets res to the configured error or disconnect for a status other than 200.
func (h *httpCarrier) transform(status int, res Response) error {
	for i := range h.transforms {
		t := &h.transforms[i]
		if t.StatusCode != status {
			continue
		}
		var e *message.Error
		var d *message.Disconnect
		if t.ToError.Code != 0 {
			e = &message.Error{Code: uint32(t.ToError.Code), Message: t.ToError.Message, Temporary: t.ToError.Temporary}
		} else {
			d = &message.Disconnect{Code: uint32(t.ToDisconnect.Code), Reason: t.ToDisconnect.Reason}
		}
		if refuse(res, e, d) {
			return nil
		}
	}
	text := fmt.Sprintf("the backend answered with status %d, not 200", status)
	switch status {
	case fasthttp.StatusBadGateway, fasthttp.StatusServiceUnavailable, fasthttp.StatusGatewayTimeout:
		return errors.New(text)
	}
	return unusable(text)
}

const errBody = unusable("the body of the answer is not the JSON that is expected")
