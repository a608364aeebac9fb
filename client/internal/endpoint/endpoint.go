// Package endpoint has the code that all transports of the client run before they connect.
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// Parse parses the URL of a server, and gives it the scheme http or https.
func Parse(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("client: endpoint: %w", err)
	}
	switch u.Scheme {
	case "ws", "http":
		u.Scheme = "http"
	case "wss", "https":
		u.Scheme = "https"
	default:
		return nil, fmt.Errorf("client: endpoint: its scheme is %q, and has to be ws, wss, http or https", u.Scheme)
	}
	if u.Host == "" {
		return nil, errors.New("client: endpoint: it names no host")
	}
	return u, nil
}

// Transport returns t, or one like it for a TLS configuration, or for a function that opens network connections, without
// proxies.
func Transport(t *http.Transport, c *tls.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	if c == nil && dial == nil {
		return t
	}
	t = t.Clone()
	t.TLSClientConfig = c
	if dial != nil {
		t.DialContext, t.Proxy = dial, nil
	}
	return t
}

// WebSocket is the transport of most clients. Its small buffers stay with a connection.
var WebSocket = &http.Transport{
	Proxy:           http.ProxyFromEnvironment,
	DialContext:     (&net.Dialer{KeepAlive: -1}).DialContext, // the protocol has pings
	ReadBufferSize:  1 << 10,
	WriteBufferSize: 1 << 10,
	Protocols: func() *http.Protocols {
		p := new(http.Protocols)
		p.SetHTTP1(true)
		return p
	}(),
}
