package client

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// limits: key is the field of gyro.Config.
var limits = [observe.NumLimits]struct {
	message, key string
	limit        func(*Registry) int
}{
	observe.LimitChannelLength: {"channel refused: its name is too long", "ChannelMaxLength",
		func(r *Registry) int { return r.Session.ChannelMaxLength }},
	observe.LimitChannels: {"subscription refused: the client has too many", "ChannelLimit",
		func(r *Registry) int { return r.Session.ChannelLimit }},
	observe.LimitReply: {"reply refused: it is too large", "QueueMaxSize",
		func(r *Registry) int { return r.Session.QueueMaxSize }},
	observe.LimitQueue: {"slow client: too much waits for it", "QueueMaxSize",
		func(r *Registry) int { return r.Session.QueueMaxSize }},
	observe.LimitPending: {"client refused: it sent too much while its commands wait", "CommandLimit",
		func(r *Registry) int { return r.Session.PendingMaxSize }},
	observe.LimitConnections: {"client refused: its user has too many connections", "UserConnectionLimit",
		func(r *Registry) int { return r.UserConnectionLimit }},
}

func (e *env) Refused(l observe.Limit, ch string) {
	e.loop.counts.Refused(l)
	if l == observe.LimitFormat {
		e.client().leftOut(ch)
		return
	}
	of, clients := &limits[l], e.loop.clients
	why := refusal.Because(errLimit, "Config."+of.key, "the limit is "+strconv.Itoa(of.limit(clients)))
	e.loop.refusals.Report(refusal.Refusal{Kind: of.message, Client: e.ID(), User: e.session.User(), Channel: ch}, 0, why)
	if l == observe.LimitQueue {
		queue, _ := e.session.Load()
		e.Note(inspect.Slow, ch, 0, queue, "")
	}
}

// unread reports that the transport could not take a message, which ends the connection.
func (c *Client) unread(code uint32, why error) {
	f := refusal.Refusal{Kind: "message refused: the connection ends", Client: c.ID(), User: c.UserID(), Addr: c.RemoteAddr()}
	c.loop.refusals.Report(f, code, why)
}

// leftOut reports that a client with JSON does not get a publication. All such clients of the channel lack it, so it is
// reported once per channel and minute.
func (c *Client) leftOut(ch string) {
	if c.loop.clients.unreadable.Allow(ch) {
		c.loop.refusals.Report(refusal.Refusal{
			Kind: "publication left out for clients with JSON: it is not JSON", Level: slog.LevelWarn, Client: c.ID(), User: c.UserID(), Channel: ch,
		}, 0, errUnreadable)
	}
}

func (e *env) Explain(kind, ch string, why error) {
	if why != nil {
		e.client().report(kind, ch, why)
	}
}

// report reports a refusal, whose reason is the text of the answer if it has no other. A payload that is not JSON
// concerns all clients of a channel with JSON, so it is reported once per channel and minute.
func (c *Client) report(kind, ch string, err error) {
	f, code := refusal.Refusal{Kind: kind, Client: c.ID(), User: c.UserID(), Channel: ch}, answerCode(err)
	if kind == session.ConnectRefused {
		f.Addr = c.RemoteAddr()
	}
	if code == protocol.DisconnectInappropriateProtocol.Code {
		if !c.loop.clients.unreadable.Allow(ch) {
			return
		}
		f.Kind, f.Level, err = "client disconnected: a payload is not JSON", slog.LevelWarn, errUnreadable
	}
	c.loop.refusals.Report(f, code, because(err))
}

var errUnreadable = refusal.Because(protocol.DisconnectInappropriateProtocol, "ChannelOptions.Binary",
	"a client with a JSON connection cannot get it: send JSON, or have all clients that get it use Protobuf")

func because(err error) error {
	switch e := err.(type) { //nolint:errorlint // what wraps an answer has a text of its own
	case *protocol.Error:
		return refusal.Because(err, "", e.Message)
	case protocol.Error:
		return refusal.Because(err, "", e.Message)
	case *protocol.Disconnect:
		return refusal.Because(err, "", e.Reason)
	case protocol.Disconnect:
		return refusal.Because(err, "", e.Reason)
	}
	return err
}

// ObserverTotals implements nodeaccess.Node.
func (r *Registry) ObserverTotals() *observe.Totals { return r.Observer.Totals }

// Refused implements nodeaccess.Node. The rings of all loops take turns.
func (r *Registry) Refused(f refusal.Refusal, status int, why error) {
	r.loops[int(r.reported.Add(1))%len(r.loops)].refusals.Report(f, uint32(status), why)
}

var errLimit = errors.New("limit reached")

// kinds of refusals whose words are not the name of the handler.
var kinds = map[string]string{
	"Connecting": session.ConnectRefused, "PresenceStats": "presence stats refused", "RPC": "RPC refused",
	"SubRefresh": "subscription refresh refused",
}

func kindOf(handler string) string {
	if kind, ok := kinds[handler]; ok {
		return kind
	}
	return strings.ToLower(handler) + " refused"
}

// answerCode is 0 if err is no answer.
func answerCode(err error) uint32 {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Code
	}
	d, _ := errors.AsType[protocol.Disconnect](err)
	return d.Code
}

// refused reports the refusal of a handler or an engine behind it. Codes of the application are its own business, unless
// it gives a reason.
func (c *Client) refused(what *observe.Effect, err error) {
	code := answerCode(err)
	_, explained := errors.AsType[*refusal.Reason](err)
	if own := code >= 400 && code < 3000 || code >= 4000; own && !explained {
		return
	}
	f := refusal.Refusal{Kind: kindOf(what.Name), Client: c.ID(), User: c.UserID(), Channel: what.Channel, Method: what.Method}
	if f.Kind == session.ConnectRefused {
		f.Addr = c.RemoteAddr()
	}
	c.loop.refusals.Report(f, code, because(err))
}

// maxIgnored bounds the reports about one connect command, which can name thousands of channels.
const maxIgnored = 32

// Ignored reports channels of a connect command that the client does not get. refused is the error of the handler; nil:
// the client is accepted without them.
func (c *Client) Ignored(user string, channels map[string]error, refused error) {
	if errors.Is(refused, ErrWouldBlock) {
		return // the handler is called once more
	}
	f, code, reported := refusal.Refusal{Kind: "channel of a connect command ignored", Client: c.ID(), User: user}, uint32(0), 0
	if refused != nil {
		f.Kind, code = "channel of a connect command refused", answerCode(refused)
	}
	for ch, why := range channels {
		if reported++; reported > maxIgnored {
			f.Channel = ""
			c.loop.refusals.Report(f, code, refusal.Because(why, "", strconv.Itoa(len(channels)-maxIgnored)+" further channels"))
			return
		}
		f.Channel = ch
		c.loop.refusals.Report(f, code, because(why))
	}
}

// begin tells the observer of an effect, whose end the caller tells by done.
func (x *executor) begin(ctx context.Context, what *observe.Effect) (_ context.Context, done func(error)) {
	begin := x.node().Observer.Effect
	if begin == nil {
		return ctx, unobserved
	}
	what.Client = x.client()
	if ctx, done = begin(ctx, *what); done == nil {
		done = unobserved
	}
	return ctx, done
}

func unobserved(error) {}
