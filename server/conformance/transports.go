package conformance

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	gyroclient "github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/server/conformance/talk"
	"github.com/gyrohq/gyro/server/internal/wire"
	"github.com/gyrohq/gyro/transport/webtransport/wtlink"
)

// Names of transports that package wire lacks.
const (
	webTransport = "webtransport"
	sockJS       = "sockjs"
)

// Transport returns the name of the transport of an endpoint, and whether it has JSON alone.
func Transport(address string) (name string, onlyJSON bool, err error) {
	kind, err := kindOf(address)
	return kind.Name, jsonOnly(kind), err
}

func jsonOnly(kind wire.Kind) bool { return kind.JSONOnly() || kind.Name == sockJS }

// kindOf returns the transport of an endpoint.
func kindOf(address string) (wire.Kind, error) {
	u, err := url.Parse(address)
	if err != nil || !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme) {
		return wire.Kind{}, fmt.Errorf("%q is no address such as ws://localhost:8000/connection/websocket", address)
	}
	frames, last := strings.HasPrefix(u.Scheme, "ws"), path.Base(u.Path)
	name := "http_stream"
	switch {
	case frames && last == "uni_websocket", !frames && (last == "uni_sse" || last == "uni_http_stream"):
		name = last
	case frames:
		name = "websocket"
	case last == webTransport, last == sockJS:
		return wire.Kind{Name: last}, nil
	case strings.HasSuffix(last, "sse"):
		name = "sse"
	}
	kind, _ := wire.KindOf(name) // it has all these names
	return kind, nil
}

// dialerOf returns what opens connections.
func dialerOf(o Options, kind wire.Kind) (*talk.Dialer, error) {
	d := &talk.Dialer{Dialer: &wire.Dialer{
		Kind: kind, URL: o.URL, Emulation: cmp.Or(o.Emulation, wire.EmulationURL(o.URL)), Encoding: o.Encoding, TLS: o.TLS,
	}}
	switch kind.Name {
	case sockJS:
		d.Over = talk.SockJS(o.URL, o.TLS)
	case webTransport:
		over, err := wtlink.WebTransport(o.URL)(&gyroclient.Options{Encoding: o.Encoding, TLS: o.TLS, MessageLimit: 16 << 20})
		if err != nil {
			return nil, err
		}
		d.Pushed = true
		d.Over = func(ctx context.Context) (talk.Link, error) { return over.Dial(ctx) }
	}
	return d, nil
}
