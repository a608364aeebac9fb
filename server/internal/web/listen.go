package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/web/certs"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/webtransport"
)

// Timeouts of every listener. Long-lived transports lift them for their connections.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 10 * time.Second
	keepIdle          = 120 * time.Second // see listening
)

// listening gives TCP connections a keep-alive, for connections without pings: after a longer silence than the one
// between pings. The front does the same for connections on loops.
var listening = net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepIdle}}

const maxHeaderBytes = 64 << 10

// Listener is an address with its handlers.
type Listener struct {
	Name   string   // external, internal or acme
	serves []string // see Site.endpoints
	addr   string
	// Server serves the requests that the front leaves to net/http.
	Server *http.Server
	ln     net.Listener
	silent silent
	// routes are served by front. loops take the connections; nil: goroutines.
	routes     []front.Route
	loops      transport.Acceptor
	front      *front.Listener // nil until open
	http3      *webtransport.Server
	wantsHTTP3 bool
}

// InternalListener is the name of the listener of internal endpoints.
const InternalListener = "internal"

func samePlace(h *config.HTTPServer) bool { return externalAddr(h) == internalAddr(h) }

func externalAddr(h *config.HTTPServer) string {
	return joinAddr(h.Address, strconv.Itoa(h.Port))
}

// joinAddr accepts IPv6 addresses with and without brackets.
func joinAddr(host, port string) string {
	return net.JoinHostPort(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), port)
}

func internalAddr(h *config.HTTPServer) string {
	host, port := h.InternalAddress, h.InternalPort
	if host == "" {
		host = h.Address
	}
	if port == "" {
		port = strconv.Itoa(h.Port)
	}
	return joinAddr(host, port)
}

// Listeners makes the external and the internal listener, and the listener for ACME challenges, if they have endpoints.
func (w *Web) Listeners(store *certs.Store) ([]*Listener, error) {
	h, external, internal, log := &w.Settings.HTTPServer, w.External, w.Internal, w.Log
	extTLS, intTLS, err := listenerTLS(h, store)
	if err != nil {
		return nil, err
	}
	var list []*Listener
	if !external.empty() {
		l := newListener("external", externalAddr(h), external, extTLS, h.H2CExternal, log)
		l.wantsHTTP3 = h.HTTP3.Enabled
		list = append(list, l)
	}
	if internal != external && !internal.empty() {
		list = append(list, newListener(InternalListener, internalAddr(h), internal, intTLS, false, log))
	}
	if challenges := store.Challenges(); challenges != nil {
		s := newSite(external.newGate)
		s.Guide.Refusals = external.Guide.Refusals
		if err := s.HandleTree("http_server.tls_autocert.http_addr", "/", Endpoint{Handler: challenges}); err != nil {
			return nil, err
		}
		list = append(list, newListener("acme", h.TLSAutocert.HTTPAddr, s, secure{}, false, log))
	}
	if !w.Settings.WebSocket.GoroutineDriver {
		for _, l := range list {
			l.loops = w.Node
		}
	}
	return list, nil
}

// Address returns the address of an open listener, with the port that the system chose, else "".
func (l *Listener) Address() string { return addressOf(l.ln) }

func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Attrs describe an open listener in the log.
func (l *Listener) Attrs() []any {
	return []any{"listener", l.Name, "address", l.Address(), "tls", l.Server.TLSConfig != nil, "http3", l.http3 != nil, "endpoints", l.serves}
}

// Silent returns how many connections at net/http have sent nothing.
func (l *Listener) Silent() int {
	l.silent.mu.Lock()
	defer l.silent.mu.Unlock()
	return len(l.silent.conns)
}

type secure struct {
	config  *tls.Config
	section string // the key of its TLS object
}

// listenerTLS returns the TLS of both listeners. Errors name the key.
func listenerTLS(h *config.HTTPServer, store *certs.Store) (external, internal secure, err error) {
	external = secure{section: "http_server.tls"}
	object := h.TLS
	if h.TLSAutocert.Enabled {
		if !object.Enabled {
			object = config.ListenerTLS{} // nothing of it matters
		}
		object.Enabled, object.Autocert = true, true
		object.CertPEM, object.KeyPEM, object.Certificates = "", "", nil
	}
	if external.config, err = store.Config(external.section, object, certs.Protocols...); err != nil {
		return external, internal, err
	}
	if !h.TLSExternal {
		internal = external
	}
	if h.InternalTLS.Enabled {
		internal.section = "http_server.internal_tls"
		internal.config, err = store.Config(internal.section, h.InternalTLS, certs.Protocols...)
	}
	return external, internal, err
}

func newListener(name, addr string, s *Site, t secure, h2c bool, log *slog.Logger) *Listener {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig:         t.config.Clone(), // net/http writes into it; nil stays nil
		ErrorLog:          stdlog.New(serverLog{log, t.section}, "", 0),
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(t.config != nil)
	server.Protocols.SetUnencryptedHTTP2(h2c && t.config == nil)
	l := &Listener{Name: name, addr: addr, Server: server, routes: s.routes, serves: s.endpoints()}
	server.ConnState = l.silent.note
	return l
}

// silent holds the connections that have sent nothing yet, for which http.Server.Shutdown would wait seconds.
type silent struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func (s *silent) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.conns, c)
	case s.closed:
		_ = c.Close()
	default:
		if s.conns == nil {
			s.conns = make(map[net.Conn]struct{})
		}
		s.conns[c] = struct{}{}
	}
}

// close closes these connections and all new ones.
func (s *silent) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
}

// Shutdown waits for the running requests. When ctx ends, it cuts them off.
func (l *Listener) Shutdown(ctx context.Context) error {
	l.silent.close()
	stopped := make(chan error, 1)
	go func() { stopped <- l.shutdownHTTP3(ctx) }()
	err := l.Server.Shutdown(ctx)
	if l.front != nil {
		err = errors.Join(err, l.front.Wait(ctx))
	}
	if err = errors.Join(err, <-stopped); err != nil {
		err = errors.Join(fmt.Errorf("%s listener: %w", l.Name, err), l.Server.Close())
	}
	return err
}

// serverLog is the log of net/http and of the front. Most lines are about handshakes that clients break, at level debug,
// like repeated attempts to accept, which the reserve reports. Handshakes that the configuration forbids are refusals.
// Panics of handlers and connections that cannot be accepted are errors.
type serverLog struct {
	log     *slog.Logger
	section string // the key of the listener's TLS object
}

// Write logs one line.
func (s serverLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if rest, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok {
		addr, failure, _ := strings.Cut(rest, ": ")
		if reason := certs.Refusal(s.section, failure); reason != nil {
			refusal.Reporter{Log: s.log}.Report(refusal.Refusal{Kind: "connection refused: its TLS is not allowed", Addr: addr}, 0, reason)
			return len(line), nil
		}
	}
	level := slog.LevelDebug
	if strings.HasPrefix(text, "http: Accept error") && !strings.Contains(text, "; retrying in ") || strings.Contains(text, ": panic serving ") {
		level = slog.LevelError
	}
	if strings.HasPrefix(text, "http3: UDP receive buffer") {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "HTTP server", "line", text)
	return len(line), nil
}

// Open opens the sockets.
func (l *Listener) Open(r *Reserve) error {
	ln, err := l.listen()
	if err != nil {
		return fmt.Errorf("http_server: %s listener: %w", l.Name, err)
	}
	if l.Name == InternalListener {
		l.ln = r.ForOperators(l.Name, ln)
	} else {
		l.ln = r.ForClients(l.Name, ln)
	}
	listen := front.Listen
	if l.Server.TLSConfig != nil {
		listen = front.ListenTLS
	}
	l.front = listen(l.ln, l.Server, l.loops, l.routes...)
	l.ln = l.front
	return nil
}

// Serve blocks until the server is shut down.
func (l *Listener) Serve() error {
	err := l.Server.Serve(l.ln)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s listener: %w", l.Name, err)
}
