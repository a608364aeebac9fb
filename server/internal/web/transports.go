package web

import (
	"errors"

	"github.com/gyrohq/gyro/transport/httpstream"
)

// mounts are by the section of the configuration.
var mounts = map[string]func(*Web) error{
	"websocket": func(w *Web) error {
		path := w.Settings.WebSocket.HandlerPrefix
		w.External.Guide.WebSocket = CleanPrefix(path)
		return mountWebSocket(w.External, "websocket.handler_prefix", path, w.webSocket())
	},
	"uni_websocket": func(w *Web) error {
		return mountWebSocket(w.External, "uni_websocket.handler_prefix", w.Settings.UniWebSocket.HandlerPrefix, w.uniWebSocket())
	},
	"sse": func(w *Web) error {
		return w.mountStream("sse", httpstream.SSE, &w.Settings.SSE, httpstream.Config{})
	},
	"http_stream": func(w *Web) error {
		return w.mountStream("http_stream", httpstream.HTTPStream, &w.Settings.HTTPStream, httpstream.Config{})
	},
	"uni_sse": func(w *Web) error {
		c := &w.Settings.UniSSE
		return w.mountStream("uni_sse", httpstream.UniSSE, &c.BodyTransport, httpstream.Config{
			ConnectAnswers: connectAnswers(&c.UniHTTP), RetryMin: c.RetryMin, RetryMax: c.RetryMax,
		})
	},
	"uni_http_stream": func(w *Web) error {
		c := &w.Settings.UniHTTPStream
		return w.mountStream("uni_http_stream", httpstream.UniHTTPStream, &c.BodyTransport, httpstream.Config{ConnectAnswers: connectAnswers(c)})
	},
	"uni_poll": func(w *Web) error {
		c := &w.Settings.UniPoll
		return w.mountStream("uni_poll", httpstream.UniPoll, &c.BodyTransport, httpstream.Config{PollTimeout: c.Timeout})
	},
	"webtransport": func(w *Web) error {
		return w.External.Handle("webtransport.handler_prefix", w.Settings.WebTransport.HandlerPrefix,
			Endpoint{Handler: w.webTransport(), limited: true, foreign: refuseForeign})
	},
	"sockjs": (*Web).mountSockJS,
}

// MountTransports mounts the enabled transports and the endpoint for commands of streams. The guide answers for disabled
// ones.
func (w *Web) MountTransports() error {
	var errs []error
	for _, t := range w.Settings.Transports() {
		if t.On() {
			errs = append(errs, mounts[t.Section](w))
		} else if key := t.OffKey(); key != "" {
			w.External.Guide.Off[CleanPrefix(*t.Prefix)] = key
		}
	}
	return errors.Join(append(errs, w.mountEmulation())...)
}
