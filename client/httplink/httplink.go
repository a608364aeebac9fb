// Package httplink has the transports of clients that no WebSocket reaches: the answer to one HTTP request carries the
// messages of the server, and the client posts its commands beside it. Fallback goes from one transport to the next.
//
//	c, err := client.NewOver(httplink.Fallback(nil,
//		client.WebSocket("wss://example.com/connection/websocket"),
//		httplink.Stream("https://example.com/connection/http_stream", nil),
//		httplink.SSE("https://example.com/connection/sse", nil),
//	), client.Options{Token: token})
package httplink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/internal/endpoint"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// Options of a transport over HTTP; nil for the defaults.
type Options struct {
	// Emulation is the URL for posts of commands. Default: /emulation of the same server.
	Emulation string
}

// Stream is HTTP streaming, at a URL such as https://example.com/connection/http_stream: the answer to a POST goes on.
// Of client.Options it heeds Encoding, Header, TLS, DialContext and MessageLimit.
func Stream(endpoint string, o *Options) client.Transport {
	return transport("http_stream", endpoint, o, false)
}

// SSE are server-sent events, at a URL such as https://example.com/connection/sse, for networks that hold other answers
// back. They carry JSON only, and the URL has the connect command. Of client.Options it heeds Header, TLS, DialContext
// and MessageLimit.
func SSE(endpoint string, o *Options) client.Transport { return transport("sse", endpoint, o, true) }

type dialer struct {
	url, emulation *url.URL
	events         bool // server-sent events
	binary         bool // Protobuf
	header         http.Header
	limit          int // of a message, in bytes
	codec          codec.ClientCodec
	http           http.RoundTripper
}

func transport(name, address string, to *Options, events bool) client.Transport {
	return func(o *client.Options) (client.Dialer, error) {
		u, err := endpoint.Parse(address)
		if err != nil {
			return client.Dialer{}, err
		}
		d := &dialer{
			url: u, emulation: u.ResolveReference(&url.URL{Path: "/emulation"}), events: events, binary: o.Encoding == protocol.Protobuf,
			header: o.Header, limit: o.MessageLimit, codec: codec.ForClient(o.Encoding), http: endpoint.Transport(shared, o.TLS, o.DialContext),
		}
		if events && d.binary {
			return client.Dialer{}, fmt.Errorf("client: Options.Encoding: server-sent events carry JSON only: %w", errors.ErrUnsupported)
		}
		if to != nil && to.Emulation != "" {
			if d.emulation, err = endpoint.Parse(to.Emulation); err != nil {
				return client.Dialer{}, fmt.Errorf("httplink: Options.Emulation: %w", err)
			}
		}
		return client.Dialer{Name: func() string { return name }, Dial: d.dial}, nil
	}
}

// shared is the transport of most clients, without compression, which would hold streams back.
var shared = &http.Transport{
	Proxy:              http.ProxyFromEnvironment,
	DialContext:        new(net.Dialer).DialContext,
	DisableCompression: true,
	ForceAttemptHTTP2:  true,
	IdleConnTimeout:    30 * time.Second,
}

func (d *dialer) dial(context.Context) (client.Conn, error) {
	c := &conn{dialer: d, first: make(chan []byte, 1)}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

func (d *dialer) request(ctx context.Context, method string, to *url.URL, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range d.header {
		r.Header[name] = values
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		if d.binary {
			r.Header.Set("Content-Type", "application/octet-stream")
		}
	}
	return r, nil
}

func (d *dialer) open(ctx context.Context, first []byte) (*http.Response, error) {
	to, method := *d.url, http.MethodPost
	if d.events {
		query := to.Query()
		query.Set("cf_connect", string(first))
		to.RawQuery, method, first = query.Encode(), http.MethodGet, nil
	}
	r, err := d.request(ctx, method, &to, first)
	if err != nil {
		return nil, err
	}
	if d.events {
		r.Header.Set("Accept", "text/event-stream")
	}
	res, err := d.http.RoundTrip(r)
	if err != nil {
		return nil, failed(r, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, failed(r, wsclient.Refused(res))
	}
	return res, nil
}

// failed names the request without its query, which may have a token.
func failed(r *http.Request, err error) error {
	return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
}
