package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// balancer spreads HTTP requests over nodes as the worst load balancer without sticky sessions does: each request goes
// to the next node, but an emulation request never to the node that has its stream, if there is another one. Only the
// requests of a SockJS session go to one node, which alone knows the session.
type balancer struct {
	listener net.Listener
	server   *http.Server
	nodes    []backend
	client   *http.Transport

	mu       sync.Mutex
	counts   map[string]int // how many requests there were, by method and path
	sessions map[string]int // the numbers of SockJS sessions
}

type backend struct{ addr, uid string }

func newBalancer(nodes []*Server) (*balancer, error) {
	b := &balancer{
		client: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		counts: make(map[string]int), sessions: make(map[string]int),
	}
	for _, n := range nodes {
		uid, err := n.uid()
		if err != nil {
			return nil, err
		}
		b.nodes = append(b.nodes, backend{n.Addr, uid})
	}
	var err error
	if b.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	b.server = &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.Host = "http", r.In.Host },
		Transport:     b,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	go b.server.Serve(b.listener) //nolint:errcheck // ends with close
	return b, nil
}

// uid asks a node for its UID. Its name ends with its port for clients.
func (s *Server) uid() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var info struct{ Nodes []struct{ UID, Name string } }
	if err := s.API(ctx, "info", struct{}{}, &info); err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(s.Public)
	if err != nil {
		return "", err
	}
	for _, n := range info.Nodes {
		if strings.HasSuffix(n.Name, "_"+port) {
			return n.UID, nil
		}
	}
	return "", fmt.Errorf("node on port %s does not list itself: %+v", port, info.Nodes)
}

func (b *balancer) addr() string { return b.listener.Addr().String() }

func (b *balancer) close() {
	_ = b.server.Close() // nothing can be done about it
	b.client.CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper. Nodes that refuse the connection are left out.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	var err error
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for _, n := range b.order(r, body) {
		out := r.Clone(r.Context())
		out.URL.Host = n.addr
		if r.Body != nil {
			out.Body = io.NopCloser(bytes.NewReader(body))
		}
		var res *http.Response
		var refused *net.OpError
		if res, err = b.client.RoundTrip(out); !errors.As(err, &refused) || refused.Op != "dial" {
			return res, err
		}
	}
	return nil, err
}

func (b *balancer) order(r *http.Request, body []byte) []backend {
	first := b.next(r) % len(b.nodes)
	list := slices.Concat(b.nodes[first:], b.nodes[:first])
	var req protocol.EmulationRequest
	switch {
	case r.URL.Path != "/emulation" || r.Method != http.MethodPost:
		return list
	case r.Header.Get("Content-Type") == "application/octet-stream":
		_ = req.UnmarshalProto(body) // the node refuses a malformed body
	default:
		_ = req.UnmarshalJSON(body)
	}
	slices.SortStableFunc(list, func(x, y backend) int {
		switch req.Node {
		case x.uid:
			return 1
		case y.uid:
			return -1
		}
		return 0
	})
	return list
}

// next counts the requests of each kind, so that two clients of a kind that connect one after the other are on different
// nodes.
func (b *balancer) next(r *http.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	kind := r.Method + " " + r.URL.Path
	if _, path, ok := strings.Cut(r.URL.Path, "/connection/sockjs/"); ok && strings.Count(path, "/") == 2 {
		session := strings.Split(path, "/")[1] // after the number of a server that the client has made up
		if n, known := b.sessions[session]; known {
			return n
		}
		kind = "session"
		b.sessions[session] = b.counts[kind]
	}
	b.counts[kind]++
	return b.counts[kind] - 1
}
