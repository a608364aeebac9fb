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
)

// Rig is everything that a suite needs. Suites in other languages use its proxies over HTTP:
// POST /proxies?to=main|brisk makes one and answers {"id", "url"}; POST
// /proxies/ID/cut|down|up|mute calls its method; GET /proxies/ID/sent answers Proxy.Sent.
type Rig struct {
	// Main is the server with config.json. Brisk has the same, and a ping each second.
	Main, Brisk *Server
	Library     *Library

	nodes   int
	redis   *Redis
	dir     string
	control *http.Server
	addr    string

	mu      sync.Mutex
	proxies []*Proxy
}

// Start sets everything up.
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
	if err = r.startEngine(); err != nil {
		return err
	}
	if r.Main, err = r.serve("main"); err != nil {
		return err
	}
	r.Brisk, err = r.serve("brisk", "GYRO_CLIENT_PING_INTERVAL=1s", "GYRO_CLIENT_PONG_TIMEOUT=900ms")
	if err != nil {
		return err
	}
	if r.Library, err = StartLibrary(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /proxies", r.createProxy)
	mux.HandleFunc("/proxies/{id}/{action}", r.actOnProxy)
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
	if r.dir != "" {
		_ = os.RemoveAll(r.dir) // if it fails, the folder stays in the folder of temporary files
	}
	Clean()
}

// Env describes the rig to a suite in another language: E2E_RIG is a JSON object.
func (r *Rig) Env() []string {
	description, err := json.Marshal(map[string]string{
		"ws": r.Main.WS(), "http": "http://" + r.Main.Addr, "brisk": r.Brisk.WS(), "library": r.Library.WS(),
		"nodes": strconv.Itoa(r.nodes), "control": "http://" + r.addr, "tokenSecret": TokenSecret, "apiKey": APIKey,
	})
	if err != nil {
		panic(err) // strings only
	}
	return []string{"E2E_RIG=" + string(description), "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost"}
}

// Logs returns what the servers have written, for a suite that failed.
func (r *Rig) Logs() string {
	var b strings.Builder
	for _, s := range []*Server{r.Main, r.Brisk} {
		fmt.Fprintf(&b, "--- log of the server on %s\n%s", s.Addr, s.Log())
	}
	return b.String()
}

// Proxy relays to one of the servers until Stop.
func (r *Rig) Proxy(to *Server) (*Proxy, error) {
	p, err := NewProxy(to.targets()...)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proxies = append(r.proxies, p)
	return p, nil
}

func (r *Rig) createProxy(w http.ResponseWriter, req *http.Request) {
	servers := map[string]*Server{"main": r.Main, "brisk": r.Brisk}
	to := servers[req.FormValue("to")]
	if to == nil {
		http.Error(w, "to: main or brisk", http.StatusBadRequest)
		return
	}
	p, err := r.Proxy(to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.mu.Lock()
	id := slices.Index(r.proxies, p)
	r.mu.Unlock()
	fmt.Fprintf(w, `{"id":"%d","url":%q}`, id, p.WS())
}

// named returns the proxy whose ID is in the path of a request, or nil.
func (r *Rig) named(req *http.Request) *Proxy {
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
		"cut": p.Cut, "down": p.Down, "up": p.Up, "mute": p.Mute, "sent": func() { fmt.Fprint(w, p.Sent()) },
	}
	if act := actions[req.PathValue("action")]; act != nil {
		act()
		return
	}
	http.NotFound(w, req)
}
