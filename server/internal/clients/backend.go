// Package clients answers the node's questions about clients: their user and their rights. A Policy decides by the
// configuration and by tokens; Backend asks a proxy (package proxy) if the configuration leaves the decision to the
// application's backend.
package clients

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// Backend asks the proxies of one configuration. Any goroutine may call its methods. They wait for the answer, at most
// for the timeout of the proxy.
type Backend struct {
	Proxies  *proxy.Set
	Channels *channels.Resolver
	Log      *slog.Logger
	// Polled, if not nil, gets the numbers of keys in questions and answers of shared polls.
	Polled func(proxy string, asked, answered int)
	// Traced: the contexts of handlers have spans.
	Traced bool
	Grace  time.Duration
	// State is shared by all configurations.
	State *State
}

// State outlives the configuration.
type State struct {
	// forged and long limit the log lines about headers that are not forwarded.
	forged, long rate.Sometimes
	unanswered   unanswered
}

// NewState returns the State of a server.
func NewState() *State {
	return &State{forged: rate.Sometimes{Interval: time.Minute}, long: rate.Sometimes{Interval: time.Minute}}
}

// Decides tells whether there is a proxy for an event that namespaces do not choose.
func (b *Backend) Decides(e proxy.Event) bool { return b.Proxies.Of(e, "") != nil }

type fromKey struct{}

func fromOf(c *gyro.Client) *proxy.From {
	f, _ := c.Context().Value(fromKey{}).(*proxy.From)
	return f
}

// Keep adds the client's forwarded headers to the reply, for this and later events. Without any, the context of the
// client stays as it is.
func (b *Backend) Keep(e gyro.ConnectEvent, overGRPC bool, reply *gyro.ConnectReply) *proxy.From {
	from, left := b.Proxies.Keep(overGRPC, e.Transport.Header, e.Headers)
	if len(left.Forged) > 0 {
		b.State.forged.Do(func() {
			b.Log.Info("headers in the connect command of a client are not forwarded: http_headers names them, but not emulated_headers",
				"client", e.ClientID, "headers", left.Forged)
		})
	}
	if len(left.Long) > 0 {
		b.State.long.Do(func() {
			b.Log.Warn("headers of a client are not forwarded: they are too long", "client", e.ClientID, "headers", left.Long,
				"key", "client.forwarded_headers_max_size")
		})
	}
	if from != nil {
		reply.Context = context.WithValue(context.Background(), fromKey{}, from)
	}
	return from
}

func labelsOf(c *gyro.Client) map[string]string { return inspect.Labels(c.Context()) }

// during returns the context of a call for a client, which ends with the client. If calls are traced, it has the values
// of ctx, such as the span.
func (b *Backend) during(ctx context.Context, c *gyro.Client) context.Context {
	if !b.Traced {
		return c.Context()
	}
	return during{c.Context(), ctx}
}

type during struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (d during) Value(key any) any { return d.values.Value(key) }

// AfterFunc is for context.AfterFunc, which otherwise needs a goroutine.
func (d during) AfterFunc(f func()) func() bool { return context.AfterFunc(d.Context, f) }

// clientFields returns the fields with which requests about a connected client begin.
func clientFields(p *proxy.Proxy, c *gyro.Client) (client, transport, format, encoding, user string, meta []byte) {
	t := c.Transport()
	if p.WantsMeta() {
		meta = c.Meta()
	}
	return c.ID(), t.Name, t.Encoding.String(), encodingOf(p), c.UserID(), meta
}

func encodingOf(p *proxy.Proxy) string {
	if p.Binary() {
		return "binary"
	}
	return "json"
}

// payload returns data in one of two fields: raw JSON, or base64.
func payload(p *proxy.Proxy, data []byte) (raw []byte, b64 string) {
	if p.Binary() {
		return nil, base64.StdEncoding.EncodeToString(data)
	}
	return data, ""
}

type answer interface {
	proxy.Response
	message.Answer
}

// ask calls a proxy for a client. The error is the answer to the client: the backend's error, or protocol.ErrorInternal
// if the call failed. If the client has gone, it is the error of ctx.
func (b *Backend) ask(ctx context.Context, p *proxy.Proxy, client, channel string, from *proxy.From, req proxy.Request, res answer) error {
	if err := p.Call(ctx, from, req, res); err != nil {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, proxy.ErrNotJSON):
			return refusal.Because(protocol.ErrorBadRequest, p.Key()+".binary_encoding", "the client's data is not JSON, and the proxy has no binary_encoding")
		}
		b.Log.Debug("a proxy gave no answer", "client", client, "channel", channel, "error", err)
		return refusal.Because(protocol.ErrorInternal, p.Key(), "the backend gave no answer")
	}
	return refused(p, res)
}

// refused returns the error or the disconnect in an answer.
func refused(p *proxy.Proxy, res message.Answer) error {
	e, d := res.Refusal()
	switch {
	case d != nil:
		out := protocol.Disconnect{Code: d.Code, Reason: d.Reason}
		return refusalOf(p, out, out.Check(), protocol.DisconnectServerError)
	case e != nil:
		out := &protocol.Error{Code: e.Code, Message: e.Message, Temporary: e.Temporary}
		return refusalOf(p, out, out.Check(), protocol.ErrorInternal)
	}
	return nil
}

// refusalOf returns the refusal in an answer. If its code is wrong, the client gets fallback.
func refusalOf(p *proxy.Proxy, answer, wrong, fallback error) error {
	if wrong != nil {
		return refusal.Because(fallback, p.Key(), "the answer of the backend cannot be sent: "+wrong.Error())
	}
	return refusal.Because(answer, p.Key(), backendRefuses)
}

const backendRefuses = "the backend refuses it"

// prolong returns how long the client, or its subscription, lives on after a refresh proxy gave no answer; ok is false
// if it ends.
func (b *Backend) prolong(p *proxy.Proxy, c *gyro.Client, channel string, err error) (until time.Time, ok bool) {
	until, ok = b.State.unanswered.prolong(thing{c.ID(), channel}, b.Grace)
	if !ok {
		b.Log.Warn("a refresh proxy gave no answer for too long: the connection or subscription ends", "client", c.ID(), "user", c.UserID(),
			"channel", channel, "key", "client.refresh_proxy_grace", "proxy", p.Key(), "error", err)
		return until, false
	}
	b.Log.Debug("a refresh proxy gave no answer: the connection or subscription lives on for now", "client", c.ID(), "channel", channel,
		"until", until, "error", err)
	return until, true
}

// decoded returns the bytes of b64 unless it is empty, else raw. The error is an answer to a client.
func decoded(p *proxy.Proxy, raw []byte, b64, field string) ([]byte, error) {
	if b64 == "" {
		return raw, nil
	}
	data, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		return nil, refusal.Because(protocol.ErrorInternal, p.Key(), fmt.Sprintf("%s in the answer of the backend is not base64", field))
	}
	return data, nil
}
