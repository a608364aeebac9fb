package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/account"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// A payload below MinSize bytes has no room for the numbers of a message.
const (
	MinSize = account.MinSize
	MaxSize = 1 << 20
)

// Target is the server under load, with the common settings of all scenarios.
type Target struct {
	// Transport: websocket (default), http_stream, sse, uni_websocket, uni_http_stream, uni_sse or uni_poll, which needs
	// channels that are recovered.
	Transport string
	URL       string // of the transport's endpoint: ws or wss, or http or https for HTTP streams
	// Emulation is the endpoint for the commands of http_stream and sse; empty: /emulation on the host of URL.
	Emulation string

	API      string // of the HTTP API, without trailing slash; for publishing over it
	APIKey   string
	Encoding protocol.Encoding
	Header   http.Header // added to the handshake or to the request of a stream
	TLS      *tls.Config // of wss and https; nil for the defaults

	// Token returns the connection token of a client; nil: none. It has to subscribe clients of one-way transports to
	// the channels.
	Token func(client int, channels ...string) (string, error)

	// Channel is the name of the channel; names of several have "-0", "-1" … behind it.
	Channel string
	// Keys, if not 0, makes the channels maps of so many entries: a run sets them over the API before subscribers come,
	// and publications change them in turn. A subscriber has joined when it is live. WebSocket, http_stream and sse
	// only.
	Keys int
	// Page is how many entries of a map a subscriber asks for at a time; 0: the server's default.
	Page int
	// In bytes, from MinSize to MaxSize.
	Size int
	// Timeout bounds an attempt to connect, subscription included, and each command of HTTP streams; 0: 20 s.
	Timeout time.Duration
	// Dialers is how many connections are set up at a time; at least 1.
	Dialers int
	// Drain is how long a run waits after the last delivery until missing ones count as lost.
	Drain time.Duration
	// PID is the server's process on this machine (Linux), for its CPU and memory; 0: unknown.
	PID int
	// Progress, if not nil, is called five times a second with the state of the run.
	Progress func(line string)
}

// Transports returns the names of the transports.
func Transports() []string { return wire.KindNames() }

// DefaultURL returns the endpoint of a transport with default port and path on this machine.
func DefaultURL(transport string) string {
	kind, _ := wire.KindOf(transport)
	return kind.DefaultURL()
}

func (t *Target) dialer() *wire.Dialer {
	kind, _ := wire.KindOf(t.Transport)
	d := &wire.Dialer{Kind: kind, URL: t.URL, Emulation: t.Emulation, Encoding: t.Encoding, Header: t.Header, TLS: t.TLS, Timeout: t.Timeout}
	if d.Emulation == "" {
		d.Emulation = wire.EmulationURL(t.URL)
	}
	return d
}

func (t *Target) token(client int, channels ...string) (string, error) {
	if t.Token == nil {
		return "", nil
	}
	token, err := t.Token(client, channels...)
	if err != nil {
		return "", fmt.Errorf("token of client %d: %w", client, err)
	}
	return token, nil
}

func (t *Target) validate(clients bool) error {
	if clients {
		if err := t.validTransport(); err != nil {
			return err
		}
	}
	if t.Size < MinSize || t.Size > MaxSize {
		return fmt.Errorf("size: %d is not from %d to %d", t.Size, MinSize, MaxSize)
	}
	if t.Channel == "" {
		return fmt.Errorf("channel: is required")
	}
	if err := t.validMap(); err != nil {
		return err
	}
	if t.Dialers < 1 {
		return fmt.Errorf("dialers: %d is less than 1", t.Dialers)
	}
	if t.Drain <= 0 {
		return fmt.Errorf("drain: %s is not positive", t.Drain)
	}
	return nil
}

func (t *Target) validMap() error {
	switch kind, _ := wire.KindOf(t.Transport); {
	case t.Keys == 0 && t.Page != 0:
		return fmt.Errorf("page: is of maps only (--keys)")
	case t.Keys == 0:
		return nil
	case kind.OneWay:
		return fmt.Errorf("keys: clients of %s cannot subscribe to maps", kind.Name)
	}
	err := errors.Join(bounds("keys", t.Keys, 1, maxKeys), bounds("page", t.Page, 0, maxKeys))
	return errors.Join(err, validURL("api", t.API, "http", "https"))
}

func (t *Target) validTransport() error {
	kind, ok := wire.KindOf(t.Transport)
	if !ok {
		return fmt.Errorf("transport: %q is none of %s", t.Transport, strings.Join(Transports(), ", "))
	}
	if t.Encoding == protocol.Protobuf && kind.JSONOnly() {
		return fmt.Errorf("proto: %s has no Protobuf", kind.Name)
	}
	if t.Emulation != "" {
		if !kind.Emulated() {
			return fmt.Errorf("emulation: clients of %s send no requests", kind.Name)
		}
		if err := validURL("emulation", t.Emulation, "http", "https"); err != nil {
			return err
		}
	}
	return validURL("url", t.URL, kind.Schemes()...)
}

func validURL(name, text string, schemes ...string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		return fmt.Errorf("%s: %q is no %s:// or %s:// address", name, text, schemes[0], schemes[1])
	}
	return nil
}

func bounds[T int | float64](name string, v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("%s: %v is not from %v to %v", name, v, low, high)
	}
	return nil
}
