package wire

import (
	"net/url"
	"slices"
	"strings"
)

// Kind is a transport, as its clients see it. The zero Kind is WebSocket.
type Kind struct {
	Name   string // as in the path of its endpoint
	OneWay bool   // clients send a connect request and nothing else
	stream bool   // the server sends the body of an HTTP response, not WebSocket frames
	events bool   // the body has server-sent events
	polls  bool   // the server answers long polls, one after the other
}

var kinds = []Kind{
	{Name: "websocket"},
	{Name: "http_stream", stream: true},
	{Name: "sse", stream: true, events: true},
	{Name: "uni_websocket", OneWay: true},
	{Name: "uni_http_stream", OneWay: true, stream: true},
	{Name: "uni_sse", OneWay: true, stream: true, events: true},
	{Name: "uni_poll", OneWay: true, stream: true, polls: true},
}

// KindNames returns the names of all kinds.
func KindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

// KindOf returns the kind with a name; the empty name means WebSocket.
func KindOf(name string) (Kind, bool) {
	if name == "" {
		return kinds[0], true
	}
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// JSONOnly reports whether the kind has no Protobuf.
func (k Kind) JSONOnly() bool { return k.OneWay || k.events }

// Emulated: clients send their commands by requests of their own.
func (k Kind) Emulated() bool { return k.stream && !k.OneWay }

// Schemes returns the schemes of the kind's URLs: without and with TLS.
func (k Kind) Schemes() []string {
	if k.stream {
		return []string{"http", "https"}
	}
	return []string{"ws", "wss"}
}

// DefaultURL returns the endpoint with default port and path on this machine.
func (k Kind) DefaultURL() string {
	return k.Schemes()[0] + "://127.0.0.1:8000/connection/" + k.Name
}

// EmulationURL returns the default endpoint for commands on the server of a stream.
func EmulationURL(stream string) string {
	u, err := url.Parse(stream)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: strings.ToLower(u.Scheme), Host: u.Host, Path: "/emulation"}).String()
}
