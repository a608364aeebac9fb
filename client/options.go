package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Defaults of Options.
const (
	defaultTimeout  = 5 * time.Second
	defaultMinDelay = 500 * time.Millisecond
	defaultMaxDelay = 20 * time.Second
	defaultPingWait = 10 * time.Second
	defaultBuffer   = 1024
	defaultLimit    = 16 << 20
)

// Options of a Client. The zero value connects without a token.
type Options struct {
	// Token is a JWT that names the user, see docs/tokens.md. Without GetToken, all connections have this one.
	Token string
	// GetToken returns a new token: before the first connection if there is no Token, and when the old one has expired,
	// or will. An error that wraps ErrUnauthorized, and an empty token, end the attempts; after other errors the client
	// tries again. ctx ends with the attempt.
	GetToken func(ctx context.Context) (string, error)
	// Data goes to the server with each connection: JSON, or any bytes with Protobuf. GetData, if set, returns it anew
	// before each attempt.
	Data    []byte
	GetData func(ctx context.Context) ([]byte, error)
	// Name of the program, and its Version, for the server's metrics and connections. Default: none.
	Name, Version string
	// Headers are sent within the protocol as if they were headers of the request, to servers that allow that.
	Headers map[string]string

	// Encoding of the messages. Default: protocol.JSON. With protocol.Protobuf, payloads are any bytes.
	Encoding protocol.Encoding
	// Dictionary takes messages that are compressed against a dictionary of the server, which may have one for the
	// Profile (docs/bandwidth.md). WebSocket alone has that. Default: false, and no profile.
	Dictionary bool
	Profile    string
	// Header of the handshake's request, beside its own fields.
	Header http.Header
	// TLS of wss; nil: the defaults of package crypto/tls.
	TLS *tls.Config
	// DialContext opens network connections. Default: net.Dialer, through the proxy that the environment names
	// (HTTPS_PROXY, HTTP_PROXY, NO_PROXY). With DialContext no proxy is used.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// MessageLimit is the most bytes of a message of the server; a larger one ends the connection, for good. Default: 16
	// MiB.
	MessageLimit int

	// Timeout of a sent command, of the wait for a connection before that, and of an attempt to connect. Default: 5 s.
	Timeout time.Duration
	// MinDelay and MaxDelay bound the time between attempts to connect, or to subscribe: MinDelay, and a random part of
	// as much again, which doubles with each failure, up to MaxDelay. Default: 500 ms and 20 s.
	MinDelay, MaxDelay time.Duration
	// PingWait is how late a ping of the server may be before the connection counts as lost. Default: 10 s.
	PingWait time.Duration
	// Buffer is how many events may wait in an iterator before the client stops reading from the connection until some
	// are taken. Default: 1024. The client does not wait for an iterator that takes nothing for a second, nor while a
	// call waits for its reply: then a GapEvent replaces further events of a full iterator without a reader, and an
	// iterator that takes events may have 16 times as many.
	Buffer int
	// Logger hears of failed attempts and lost connections (info), of the end of attempts, and of full iterators (warn).
	// Default: slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MinDelay, o.MaxDelay = cmp.Or(o.MinDelay, defaultMinDelay), cmp.Or(o.MaxDelay, defaultMaxDelay)
	o.PingWait, o.Buffer = cmp.Or(o.PingWait, defaultPingWait), cmp.Or(o.Buffer, defaultBuffer)
	o.MessageLimit = cmp.Or(o.MessageLimit, defaultLimit)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	for _, field := range []struct {
		name string
		ok   bool
	}{
		{"Timeout", o.Timeout > 0}, {"MinDelay", o.MinDelay > 0}, {"MaxDelay", o.MaxDelay >= o.MinDelay}, {"PingWait", o.PingWait > 0},
		{"Buffer", o.Buffer > 0}, {"MessageLimit", o.MessageLimit > 0},
	} {
		if !field.ok {
			return o, fmt.Errorf("client: Options.%s is negative, or MaxDelay less than MinDelay", field.name)
		}
	}
	if o.Encoding != protocol.JSON && o.Encoding != protocol.Protobuf {
		return o, errors.New("client: Options.Encoding is neither protocol.JSON nor protocol.Protobuf")
	}
	return o, nil
}
