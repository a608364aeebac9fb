package talk

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
	"github.com/gyrohq/gyro/transport/webtransport/wtlink"
)

const messageLimit = 16 << 20

// Transports that package wire lacks.
const (
	OfWebTransport = "webtransport"
	OfSockJS       = "sockjs"
)

// JSONOnly reports whether a transport has no Protobuf.
func JSONOnly(kind wire.Kind) bool { return kind.JSONOnly() || kind.Name == OfSockJS }

// KindOf returns the transport of an endpoint.
func KindOf(address string) (wire.Kind, error) {
	u, err := url.Parse(address)
	if err != nil || !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme) {
		return wire.Kind{}, fmt.Errorf("%q is not an address such as ws://localhost:8000/connection/websocket", address)
	}
	frames, last := strings.HasPrefix(u.Scheme, "ws"), path.Base(u.Path)
	name := "http_stream"
	switch {
	case frames && last == "uni_websocket", !frames && (last == "uni_sse" || last == "uni_http_stream"):
		name = last
	case frames:
		name = "websocket"
	case last == OfWebTransport, last == OfSockJS:
		return wire.Kind{Name: last}, nil
	case strings.HasSuffix(last, "sse"):
		name = "sse"
	}
	kind, _ := wire.KindOf(name) // it has all these names
	return kind, nil
}

// NewDialer returns a dialer for an endpoint. emulation is the emulation endpoint of streams, by default /emulation of
// its host.
func NewDialer(address, emulation string, e protocol.Encoding, config *tls.Config) (*Dialer, error) {
	kind, err := KindOf(address)
	if err != nil {
		return nil, err
	}
	if e == protocol.Protobuf && JSONOnly(kind) {
		return nil, fmt.Errorf("%s: %s has no Protobuf", address, kind.Name)
	}
	d := &Dialer{Dialer: &wire.Dialer{Kind: kind, URL: address, Emulation: cmp.Or(emulation, wire.EmulationURL(address)), Encoding: e, TLS: config}}
	switch kind.Name {
	case OfSockJS:
		d.Over = SockJS(address, config)
	case OfWebTransport:
		over, err := wtlink.WebTransport(address)(&client.Options{Encoding: e, TLS: config, MessageLimit: messageLimit})
		if err != nil {
			return nil, err
		}
		d.Pushed = true
		d.Over = func(ctx context.Context) (Link, error) { return over.Dial(ctx) }
	}
	return d, nil
}
