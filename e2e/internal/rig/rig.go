package rig

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// Rig is everything that a suite needs. Suites in other languages use its proxies over HTTP: POST /proxies?to=main|brisk
// makes one and answers {"id", "url"}, with &for=streams one to Server.Streams, which may be to=library too, with
// &for=webtransport a quicProxy; POST /proxies/ID/cut|down|up|mute calls its method; GET /proxies/ID/sent answers
// Proxy.Sent. POST /nodes/INDEX/kill kills a node of Main.
type Rig struct {
	// Main is the server with config.json. Brisk has the same, and a ping every three seconds.
	Main, Brisk *Server
	Library     *Library

	nodes       int
	redis       *Redis
	nats        *NATS
	postgres    *postgrestest.Server
	dir         string
	certificate *certificate
	tls         *certificate // of the nodes, nil if they have no TLS
	control     *http.Server
	addr        string

	// The addresses for WebTransport clients of Main and Brisk; empty without TLS.
	mainQUIC, briskQUIC string

	mu      sync.Mutex
	proxies []proxy
}

type proxy interface {
	Addr() string
	Cut()
	Down()
	Up()
	Mute()
	Close()
}

func Start() (*Rig, error) {
	r := &Rig{}
	if err := r.start(); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

func (r *Rig) start() (err error) {
	if r.dir, err = os.MkdirTemp("", "gyro-rig-"); err != nil {
		return err
	}
	if r.certificate, err = newCertificate(r.dir); err != nil {
		return err
	}
	if withTLS() {
		r.tls = r.certificate
	}
	if err = r.startEngine(); err != nil {
		return err
	}
	if r.Main, err = r.serve("main"); err != nil {
		return err
	}
	r.Brisk, err = r.serve("brisk", "GYRO_CLIENT_PING_INTERVAL=3s", "GYRO_CLIENT_PONG_TIMEOUT=2900ms")
	if err != nil {
		return err
	}
	if r.Library, err = startLibrary(r.certificate); err != nil {
		return err
	}
	if r.tls != nil {
		if r.mainQUIC, err = r.addrQUIC(r.Main); err != nil {
			return err
		}
		if r.briskQUIC, err = r.addrQUIC(r.Brisk); err != nil {
			return err
		}
	}
	return r.serveControl()
}

// withTLS: with E2E_TLS=true the ports for clients have TLS and HTTP/3. The API has a port of its own, without TLS.
func withTLS() bool { return os.Getenv("E2E_TLS") == "true" }

func (r *Rig) serveControl() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /proxies", r.createProxy)
	mux.HandleFunc("/proxies/{id}/{action}", r.actOnProxy)
	mux.HandleFunc("POST /nodes/{index}/kill", r.killNode)
	r.addr, r.control = listener.Addr().String(), &http.Server{Handler: mux}
	go r.control.Serve(listener) //nolint:errcheck // ends with Stop
	return nil
}

// Stop ends everything. There is one rig per process.
func (r *Rig) Stop() {
	if r.control != nil {
		_ = r.control.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.proxies {
		p.Close()
	}
	if r.Library != nil {
		r.Library.Stop()
	}
	for _, s := range []*Server{r.Main, r.Brisk} {
		if s != nil {
			s.Stop()
		}
	}
	if r.redis != nil {
		r.redis.Kill()
	}
	if r.nats != nil {
		r.nats.Stop()
	}
	if r.postgres != nil {
		r.postgres.Stop()
	}
	if r.dir != "" {
		_ = os.RemoveAll(r.dir) // if it fails, the folder stays in the folder of temporary files
	}
	Clean()
}

// Env describes the rig to other languages: E2E_RIG is a JSON object.
func (r *Rig) Env() []string {
	var apis []string
	for _, addr := range r.Main.targets() {
		apis = append(apis, "http://"+addr)
	}
	description := map[string]any{
		"ws": r.Main.WS(), "http": "http://" + r.Main.Addr, "brisk": r.Brisk.WS(), "library": r.Library.WS(),
		"libraryQUIC": "https://" + r.Library.http3.Addr().String(),
		"streams":     "http://" + r.Main.Streams(), "briskStreams": "http://" + r.Brisk.Streams(), "uniGRPC": r.Main.UniGRPC, "grpcAPI": r.Main.GRPCAPI,
		"history": strconv.FormatBool(r.nats == nil),
		"nodes":   strconv.Itoa(r.nodes), "control": "http://" + r.addr, "tokenSecret": TokenSecret, "apiKey": APIKey,
		"apis": apis, "spki": r.certificate.spki,
	}
	if r.tls != nil {
		description["webtransport"], description["briskWebTransport"] = "https://"+r.mainQUIC, "https://"+r.briskQUIC
	}
	text, err := json.Marshal(description)
	if err != nil {
		panic(err) // strings only
	}
	return []string{"E2E_RIG=" + string(text), "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost"}
}

func (r *Rig) Logs() string {
	var b strings.Builder
	for _, s := range []*Server{r.Main, r.Brisk} {
		fmt.Fprintf(&b, "--- log of the server on %s\n%s", s.Addr, s.Log())
	}
	return b.String()
}

// Proxy relays to one of the servers until Stop.
func (r *Rig) Proxy(to *Server) (*Proxy, error) { return r.proxyTCP(to.targets()) }

func (r *Rig) proxyTCP(targets []string) (*Proxy, error) {
	p, err := NewProxy(targets...)
	if err == nil {
		r.keep(p)
	}
	return p, err
}

func (r *Rig) proxyQUIC(to *Server) (*quicProxy, error) {
	p, err := newQUICProxy(r.certificate.Certificate, to.members())
	if err == nil {
		r.keep(p)
	}
	return p, err
}

// addrQUIC returns where WebTransport clients connect: to a cluster through a proxy, to the next node each time.
func (r *Rig) addrQUIC(s *Server) (string, error) {
	if s.process != nil {
		return s.Public, nil
	}
	p, err := r.proxyQUIC(s)
	if err != nil {
		return "", err
	}
	return p.Addr(), nil
}

func (r *Rig) keep(p proxy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proxies = append(r.proxies, p)
}

func (r *Rig) createProxy(w http.ResponseWriter, req *http.Request) {
	servers := map[string]*Server{"main": r.Main, "brisk": r.Brisk, "library": {Addr: r.Library.Addr}}
	to := servers[req.FormValue("to")]
	if to == nil {
		http.Error(w, "to: main, brisk or library", http.StatusBadRequest)
		return
	}
	var p proxy
	var err error
	format := "http://%s"
	switch req.FormValue("for") {
	case "streams":
		p, err = r.proxyTCP([]string{to.Streams()})
	case "webtransport":
		format = "https://%s"
		p, err = r.proxyQUIC(to)
	default:
		format = "ws://%s/connection/websocket"
		p, err = r.proxyTCP(to.targets())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.mu.Lock()
	id := slices.Index(r.proxies, p)
	r.mu.Unlock()
	fmt.Fprintf(w, `{"id":"%d","url":%q}`, id, fmt.Sprintf(format, p.Addr()))
}

func (r *Rig) named(req *http.Request) proxy {
	id, err := strconv.Atoi(req.PathValue("id"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || id < 0 || id >= len(r.proxies) {
		return nil
	}
	return r.proxies[id]
}

func (r *Rig) actOnProxy(w http.ResponseWriter, req *http.Request) {
	p := r.named(req)
	if p == nil {
		http.NotFound(w, req)
		return
	}
	actions := map[string]func(){
		"cut": p.Cut, "down": p.Down, "up": p.Up, "mute": p.Mute,
	}
	if tcp, ok := p.(*Proxy); ok {
		actions["sent"] = func() { fmt.Fprint(w, tcp.Sent()) }
	}
	if act := actions[req.PathValue("action")]; act != nil {
		act()
		return
	}
	http.NotFound(w, req)
}

func (r *Rig) killNode(w http.ResponseWriter, req *http.Request) {
	i, err := strconv.Atoi(req.PathValue("index"))
	if err != nil || i < 0 || i >= len(r.Main.nodes) {
		http.NotFound(w, req)
		return
	}
	r.Main.nodes[i].Kill()
}
