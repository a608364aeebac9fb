package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/server/config"
)

// Timeouts of every listener (config.md 4.1). Long-lived transports lift them
// for their own connections.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 10 * time.Second
)

// maxHeaderBytes bounds the headers of a request.
const maxHeaderBytes = 64 << 10

// listener is one address and what is served there.
type listener struct {
	name   string
	addr   string
	server *http.Server
	ln     net.Listener
}

// samePlace tells whether internal endpoints share the external listener.
func samePlace(h *config.HTTPServer) bool { return externalAddr(h) == internalAddr(h) }

func externalAddr(h *config.HTTPServer) string {
	return net.JoinHostPort(h.Address, strconv.Itoa(h.Port))
}

func internalAddr(h *config.HTTPServer) string {
	host, port := h.InternalAddress, h.InternalPort
	if host == "" {
		host = h.Address
	}
	if port == "" {
		port = strconv.Itoa(h.Port)
	}
	return net.JoinHostPort(host, port)
}

// makeListeners prepares the external and the internal listener. One with
// nothing to serve is left out.
func makeListeners(cfg *config.Config, external, internal *site, log *slog.Logger) ([]*listener, error) {
	h := &cfg.HTTPServer
	extTLS, err := serverTLS("http_server.tls", h.TLS)
	if err != nil {
		return nil, err
	}
	intTLS := extTLS
	if h.TLSExternal {
		intTLS = nil
	}
	if h.InternalTLS.Enabled {
		if intTLS, err = serverTLS("http_server.internal_tls", h.InternalTLS); err != nil {
			return nil, err
		}
	}
	var list []*listener
	if len(external.paths) > 0 {
		list = append(list, newListener("external", externalAddr(h), external.mux, extTLS, h.H2CExternal, log))
	}
	if internal != external && len(internal.paths) > 0 {
		list = append(list, newListener("internal", internalAddr(h), internal.mux, intTLS, false, log))
	}
	return list, nil
}

func newListener(name, addr string, handler http.Handler, t *tls.Config, h2c bool, log *slog.Logger) *listener {
	s := &http.Server{
		Handler:           accessLog(handler, log),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig:         t,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(t != nil)
	s.Protocols.SetUnencryptedHTTP2(h2c && t == nil)
	return &listener{name: name, addr: addr, server: s}
}

func (l *listener) open() error {
	ln, err := net.Listen("tcp", l.addr)
	if err != nil {
		return fmt.Errorf("%s listener: %w", l.name, err)
	}
	l.ln = ln
	return nil
}

// serve blocks until the server is shut down.
func (l *listener) serve() error {
	var err error
	if l.server.TLSConfig != nil {
		err = l.server.ServeTLS(l.ln, "", "")
	} else {
		err = l.server.Serve(l.ln)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s listener: %w", l.name, err)
}

// serverTLS loads the TLS configuration of a listener, nil if it is off.
func serverTLS(key string, t config.TLS) (*tls.Config, error) {
	c, err := t.ServerConfig()
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	return c, nil
}
