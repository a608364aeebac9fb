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
// POST /proxies?to=main|brisk makes one and answers {"id", "url"}, with &for=streams one to
// Server.Streams; POST /proxies/ID/cut|down|up|mute calls its method; GET /proxies/ID/sent answers
// Proxy.Sent. Of Main as a cluster, POST /nodes/UID/others answers the addresses of the other nodes,
// and POST /nodes/UID/kill kills the node.
type Rig struct {
	// Main is the server with config.json. Brisk has the same, and a ping every two seconds.
	Main, Brisk *Server
	Library     *Library

	nodes   int
	redis   *Redis
	nats    *NATS
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
	r.Brisk, err = r.serve("brisk", "GYRO_CLIENT_PING_INTERVAL=2s", "GYRO_CLIENT_PONG_TIMEOUT=1900ms")
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
	mux.HandleFunc("POST /nodes/{uid}/{action}", r.actOnNode)
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
	if r.dir != "" {
		_ = os.RemoveAll(r.dir) // if it fails, the folder stays in the folder of temporary files
	}
	Clean()
}

// Env describes the rig to a suite in another language: E2E_RIG is a JSON object.
func (r *Rig) Env() []string {
	description, err := json.Marshal(map[string]string{
		"ws": r.Main.WS(), "http": "http://" + r.Main.Addr, "brisk": r.Brisk.WS(), "library": r.Library.WS(),
		"streams": "http://" + r.Main.Streams(), "briskStreams": "http://" + r.Brisk.Streams(), "uniGRPC": r.Main.UniGRPC,
		"history": strconv.FormatBool(r.nats == nil),
		"nodes":   strconv.Itoa(r.nodes), "control": "http://" + r.addr, "tokenSecret": TokenSecret, "apiKey": APIKey,
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
func (r *Rig) Proxy(to *Server) (*Proxy, error) { return r.proxy(to.targets()) }

func (r *Rig) proxy(targets []string) (*Proxy, error) {
	p, err := NewProxy(targets...)
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
	targets := to.targets()
	if req.FormValue("for") == "streams" {
		targets = []string{to.Streams()}
	}
	p, err := r.proxy(targets)
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

// actOnNode serves what concerns a node of the cluster Main.
func (r *Rig) actOnNode(w http.ResponseWriter, req *http.Request) {
	var node *Server
	var others []string
	if b := r.Main.balancer; b != nil {
		for i, n := range b.nodes {
			if n.uid == req.PathValue("uid") {
				node = r.Main.nodes[i]
			} else {
				others = append(others, "http://"+n.addr)
			}
		}
	}
	switch action := req.PathValue("action"); {
	case node != nil && action == "others":
		_ = json.NewEncoder(w).Encode(others) // the suite notices if it gets no answer
	case node != nil && action == "kill":
		node.Kill()
	default:
		http.NotFound(w, req)
	}
}
