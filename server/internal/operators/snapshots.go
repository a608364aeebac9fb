package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
)

const (
	maxSnapshotBody   = 64 << 10
	maxSnapshots      = 4
	snapshotWriteTime = 20 * time.Second
)

// SnapshotNode is the part of gyro.Inspector that Snapshots call.
type SnapshotNode interface {
	Snapshot(ctx context.Context, f inspect.Filter) iter.Seq2[inspect.Page, error]
}

// Snapshots serve all connections of the cluster, or the ones that a filter selects, as lines of JSON
// (docs/connections.md#snapshots). They do not check the sender.
type Snapshots struct {
	node    SnapshotNode
	log     *slog.Logger
	room    chan struct{}
	stopped context.Context
}

// NewSnapshots returns a handler of POST requests, whose body has the members of the method connections but for limit.
// The answer has a line for each connection, and at the end one with the member summary, without which it is not
// complete. The end of stopped ends it.
func NewSnapshots(stopped context.Context, n SnapshotNode, log *slog.Logger) *Snapshots {
	return &Snapshots{node: n, log: log, room: make(chan struct{}, maxSnapshots), stopped: stopped}
}

func readFilter(w http.ResponseWriter, r *http.Request) (f inspect.Filter, err error) {
	var q api.ConnectionsRequest
	body, err := readBody(w, r, maxSnapshotBody)
	if err == nil && len(body) > 0 {
		err = q.UnmarshalJSON(body)
	}
	switch {
	case err != nil:
		return f, fmt.Errorf("the body is not the JSON object of a filter: %w", err)
	case q.Limit != 0:
		return f, errors.New("limit: a snapshot has none")
	}
	return q.Filter(), nil
}

// ServeHTTP implements http.Handler.
func (h *Snapshots) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	f, err := readFilter(w, r)
	if err != nil {
		http.Error(w, "Bad Request: "+err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	default:
		http.Error(w, fmt.Sprintf("Too Many Requests: %d snapshots are under way at this node, which is the limit", maxSnapshots), http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.stopped, cancel)()
	s := &snapshotStream{lines: newLines(w, snapshotWriteTime), summary: summary{Nodes: make(map[string]int)}}
	h.log.Info("snapshot begins", "addr", r.RemoteAddr)
	began := time.Now()
	for page, failure := range h.node.Snapshot(ctx, f) {
		if err = failure; err == nil {
			err = s.writePage(page)
		}
		if err != nil {
			break
		}
	}
	attrs := []any{"addr", r.RemoteAddr, "connections", s.Connections, "took_ms", time.Since(began).Milliseconds()}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	h.log.Info("snapshot has ended", attrs...)
	switch {
	case errors.Is(err, protocol.ErrorBadRequest):
		http.Error(w, "Bad Request: "+strings.TrimPrefix(err.Error(), protocol.ErrorBadRequest.Error()+": "), http.StatusBadRequest)
		return
	case errors.Is(err, gyro.ErrNoAnswer):
		s.Incomplete = strings.TrimPrefix(err.Error(), "gyro: ")
	case err != nil && !s.begun:
		http.Error(w, "Service Unavailable: "+strings.TrimPrefix(err.Error(), "gyro: "), http.StatusServiceUnavailable)
		return
	case err != nil: // there is no summary, so the reader knows
		return
	}
	_ = s.end()
}

type summary struct {
	Connections int            `json:"connections"`
	Nodes       map[string]int `json:"nodes"`
	// Incomplete names the nodes that have not answered to the end, and why.
	Incomplete string `json:"incomplete,omitempty"`
	// Failed is the first error of the expression.
	Failed string `json:"failed,omitempty"`
}

type snapshotStream struct {
	*lines
	out []byte
	summary
}

func (s *snapshotStream) writePage(p inspect.Page) error {
	s.Nodes[p.Node] += len(p.Connections)
	s.Connections += len(p.Connections)
	s.Failed = cmp.Or(s.Failed, p.Failed)
	if len(p.Connections) == 0 && !s.quiet() {
		return nil
	}
	s.out = s.out[:0]
	for i := range p.Connections {
		var err error
		if s.out, err = appendLine(s.out, p.Name, &p.Connections[i]); err != nil {
			return err
		}
	}
	return s.write(s.out)
}

// appendLine describes a connection as the answer to the method connections does, with its ID and the name of its node.
func appendLine(dst []byte, node string, c *inspect.Connection) ([]byte, error) {
	head, err := json.Marshal(struct {
		Client   string `json:"client"`
		NodeName string `json:"node_name"`
	}{c.Client, node})
	if err != nil {
		return dst, err
	}
	if !json.Valid(c.Meta) { // of a program that uses the library; a backend's is JSON
		described := *c
		described.Meta, c = nil, &described
	}
	info, err := api.Describe(c).AppendJSON(nil)
	if err != nil {
		return dst, err
	}
	dst = append(append(dst, head[:len(head)-1]...), ',')
	return append(append(dst, info[1:]...), '\n'), nil
}

func (s *snapshotStream) end() error {
	line, err := json.Marshal(map[string]*summary{"summary": &s.summary})
	if err != nil {
		return err
	}
	s.out = append(append(s.out[:0], line...), '\n')
	return s.write(s.out)
}
