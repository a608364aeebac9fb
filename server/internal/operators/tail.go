package operators

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/transport/httpstream"
)

const tailUser = "gyro:admin"

type tailing struct {
	channel string
	expires time.Time
}

type tailKey struct{}

// tail subscribes an operator to a channel, whose pushes are the lines of the answer. The connection is one of the
// node's clients: it has a bounded queue, is told if it missed something, and ends if it is too slow.
func (d *console) tail() http.Handler {
	streams := httpstream.NewHandler(httpstream.UniHTTPStream, d.Node, httpstream.Config{WriteTimeout: 10 * time.Second})
	maps := httpstream.NewHandler(httpstream.HTTPStream, d.Node, httpstream.Config{WriteTimeout: 10 * time.Second})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ch, err := d.askedChannel(w, r)
		if err == nil {
			_, err = tailed(ch)
		}
		if err != nil {
			http.Error(w, "Bad Request: "+err.Error(), http.StatusBadRequest)
			return
		}
		t := tailing{channel: name}
		t.expires, _ = r.Context().Deadline()
		w.Header().Set("X-Accel-Buffering", "no")
		if ch.Type != channels.Stream {
			d.tailMap(maps, w, opening(r, t, firstCommands(name, ch)), name, ch)
			return
		}
		streams.ServeHTTP(noHijack{w}, opening(r, t, "{}"))
	})
}

func opening(r *http.Request, t tailing, body string) *http.Request {
	q := r.WithContext(context.WithValue(r.Context(), tailKey{}, t))
	q.Body, q.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	q.Header = http.Header{"Content-Type": {"application/json"}}
	return q
}

// noHijack keeps the connection from being taken over, so that the handler returns when the stream ends.
type noHijack struct{ http.ResponseWriter }

// Flush implements http.Flusher.
func (k noHijack) Flush() { _ = http.NewResponseController(k.ResponseWriter).Flush() }

// SetWriteDeadline is for http.ResponseController.
func (k noHijack) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(k.ResponseWriter).SetWriteDeadline(t)
}

// SetReadDeadline is for http.ResponseController.
func (k noHijack) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(k.ResponseWriter).SetReadDeadline(t)
}

func tailed(ch channels.Channel) (gyro.SubscribeOptions, error) {
	o := channels.Subscription(ch, channels.SourceServerAPI)
	switch {
	case ch.Type == channels.Stream:
	case o.Map != nil:
		return gyro.SubscribeOptions{Map: o.Map, HistoryMetaTTL: o.HistoryMetaTTL, Source: o.Source}, nil
	default:
		return gyro.SubscribeOptions{}, errors.New("only streams and maps can be watched")
	}
	return gyro.SubscribeOptions{
		Positioned: ch.HistorySize > 0, PushJoinLeave: true, HistoryMetaTTL: o.HistoryMetaTTL, Source: o.Source,
	}, nil
}

// Connects tells, by the context of a Connecting event, whether an operator that watches a channel connects.
func Connects(ctx context.Context) bool {
	_, ok := ctx.Value(tailKey{}).(tailing)
	return ok
}

// Connect answers the Connecting event of such a connection.
func Connect(ctx context.Context, resolver *channels.Resolver) (reply gyro.ConnectReply, err error) {
	t, _ := ctx.Value(tailKey{}).(tailing)
	ch, err := resolver.Named(t.channel)
	if err != nil {
		return reply, err
	}
	o, err := tailed(ch)
	if err != nil {
		return reply, err
	}
	reply.Credentials = &gyro.Credentials{UserID: tailUser, ExpireAt: t.expires}
	reply.ClientSideRefresh = true // no backend is asked to prolong it
	if o.Map != nil {              // the connection subscribes by commands, which Watches allows
		reply.Context = context.WithValue(context.Background(), tailKey{}, t)
		return reply, nil
	}
	channels.Subscribe(&reply, t.channel, o)
	return reply, nil
}

// Watches answers the Subscribe event of such a connection. For all others, watching is false.
func Watches(c *gyro.Client, resolver *channels.Resolver, name string) (reply gyro.SubscribeReply, watching bool, err error) {
	t, watching := c.Context().Value(tailKey{}).(tailing)
	if !watching {
		return reply, false, nil
	}
	if name != t.channel {
		return reply, true, protocol.ErrorPermissionDenied
	}
	ch, err := resolver.Named(name)
	if err == nil {
		reply.Options, err = tailed(ch)
	}
	return reply, true, err
}
