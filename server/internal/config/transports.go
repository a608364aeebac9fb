package config

// Transport is a transport on the external listener.
type Transport struct {
	// Section of the configuration.
	Section string
	// Prefix is its handler_prefix.
	Prefix            *string
	enabled, disabled *bool
}

// Transports returns the transports of the external listener. All code that handles each transport uses this list.
func (c *Config) Transports() []Transport {
	body := func(section string, t *BodyTransport) Transport {
		return Transport{Section: section, Prefix: &t.HandlerPrefix, enabled: &t.Enabled}
	}
	return []Transport{
		{Section: "websocket", Prefix: &c.WebSocket.HandlerPrefix, disabled: &c.WebSocket.Disabled},
		{Section: "uni_websocket", Prefix: &c.UniWebSocket.HandlerPrefix, enabled: &c.UniWebSocket.Enabled},
		body("sse", &c.SSE),
		body("http_stream", &c.HTTPStream),
		body("uni_sse", &c.UniSSE.BodyTransport),
		body("uni_http_stream", &c.UniHTTPStream.BodyTransport),
		body("uni_poll", &c.UniPoll.BodyTransport),
		{Section: "webtransport", Prefix: &c.WebTransport.HandlerPrefix, enabled: &c.WebTransport.Enabled},
		{Section: "sockjs", Prefix: &c.SockJS.HandlerPrefix, enabled: &c.SockJS.Enabled},
	}
}

// On tells whether the transport is enabled.
func (t Transport) On() bool {
	if t.disabled != nil {
		return !*t.disabled
	}
	return *t.enabled
}

// Switch enables or disables the transport.
func (t Transport) Switch(on bool) {
	if t.disabled != nil {
		*t.disabled = !on
		return
	}
	*t.enabled = on
}

// OffKey is the key that enables a transport that is off by default; else empty.
func (t Transport) OffKey() string {
	if t.enabled == nil {
		return ""
	}
	return t.Section + ".enabled"
}
