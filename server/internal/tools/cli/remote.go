// Package cli has the commands of gyro that talk to a server. It knows no flags and no environment.
package cli

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
)

// Addresses of a server with default ports and paths on this machine.
const (
	DefaultURL = "ws://127.0.0.1:8000/connection/websocket"
	DefaultAPI = "http://127.0.0.1:8000/api"
)

// Each connection gets a new token.
const tokenTTL = time.Hour

// Remote is a server, with the user and the credentials of its client.
type Remote struct {
	// URL is the WebSocket endpoint; without a path, the path of DefaultURL. Empty: the host of API.
	URL string
	// API is the server API; without a path, /api. Empty: the host of URL.
	API    string
	APIKey string
	// Token of the connection; empty for none. Sign, if set, signs connection tokens for User instead, Subscribe
	// subscription tokens.
	Token           string
	User            string
	Sign, Subscribe *config.Token
	// KeySecret signs which keys of shared poll channels User tracks; empty: Signature is for all keys of the one
	// channel.
	KeySecret, Signature string
	TLS                  *tls.Config
}

type listener struct {
	addr   string
	secure bool
}

func (p listener) url(name, path string) string { return scheme(name, p.secure) + p.addr + path }

// listeners returns the listeners for clients and for internal endpoints, as this machine reaches them.
func listeners(h *config.HTTPServer) (external, internal listener) {
	host := h.Address
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	port := strconv.Itoa(h.Port)
	external = listener{net.JoinHostPort(host, port), h.TLS.Enabled || h.TLSAutocert.Enabled}
	if h.InternalPort == "" && h.InternalAddress == "" {
		return external, external
	}
	within := cmp.Or(h.InternalAddress, host)
	if ip := net.ParseIP(within); ip != nil && ip.IsUnspecified() {
		within = host
	}
	return external, listener{net.JoinHostPort(within, cmp.Or(h.InternalPort, port)), external.secure && !h.TLSExternal || h.InternalTLS.Enabled}
}

// Of returns the server of a configuration.
func Of(cfg *config.Config) Remote {
	external, api := listeners(&cfg.HTTPServer)
	if cfg.HTTPAPI.External {
		api = external
	}
	r := Remote{
		URL: external.url("ws", path(cfg.WebSocket.HandlerPrefix)), API: api.url("http", path(cfg.HTTPAPI.HandlerPrefix)),
		APIKey: cfg.HTTPAPI.Key, KeySecret: cfg.SharedPoll.HMACSecretKey,
	}
	if cfg.Client.Token.HMACSecretKey != "" {
		r.Sign, r.Subscribe = &cfg.Client.Token, &cfg.Client.Token
	}
	if own := &cfg.Client.SubscriptionToken; own.Enabled {
		r.Subscribe = nil
		if own.HMACSecretKey != "" {
			r.Subscribe = &own.Token
		}
	}
	return r
}

func scheme(name string, secure bool) string {
	if secure {
		name += "s"
	}
	return name + "://"
}

func path(prefix string) string { return "/" + strings.Trim(prefix, "/") }

func (r *Remote) complete() error {
	var err error
	if r.URL, err = endpoint("url", cmp.Or(r.URL, r.API, DefaultURL), r.URL == "" && r.API != "", "ws", "/connection/websocket"); err != nil {
		return err
	}
	r.API, err = endpoint("api", cmp.Or(r.API, r.URL), r.API == "", "http", "/api")
	return err
}

// endpoint makes the address of an endpoint. text may be the address of another endpoint on the host, or of the host
// alone.
func endpoint(name, text string, other bool, scheme, path string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", Usage("%s: %w", name, err)
	}
	switch u.Scheme {
	case "ws", "http":
		u.Scheme = scheme
	case "wss", "https":
		u.Scheme = scheme + "s"
	default:
		return "", Usage("%s: %q is no address such as %s://localhost:8000", name, text, scheme)
	}
	if u.Host == "" {
		return "", Usage("%s: %q has no host", name, text)
	}
	if other || strings.Trim(u.Path, "/") == "" {
		u.Path, u.RawQuery = path, ""
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u.String(), nil
}

// Caller returns a caller of the server API.
func (r Remote) Caller() (*apicall.Caller, error) {
	if err := r.complete(); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = r.TLS
	return &apicall.Caller{URL: r.API, Key: r.APIKey, HTTP: &http.Client{Transport: transport}}, nil
}
