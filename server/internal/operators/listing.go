package operators

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/server/internal/operators/admin"
)

// The list of connections costs a cluster of any size about the same: each loop of a node describes its newest
// connections, listLimit in a cluster of one node, fewer with many nodes, but at least listLeast.
const (
	listLimit, listTotal, listLeast = 200, 2500, 10
	listAge                         = 2 * time.Second
	listPatience                    = 2 * time.Second
)

type clients interface {
	Cluster() gyro.Cluster
	Inspect() gyro.Inspector
}

type listing struct {
	Clients int `json:"clients"`
	// More: the list does not have them all.
	More bool `json:"more,omitempty"`
	// Incomplete names the nodes that have not answered, and why.
	Incomplete  string     `json:"incomplete,omitempty"`
	Connections []listItem `json:"connections"`
}

type listItem struct {
	Client        string `json:"client"`
	User          string `json:"user"`
	Node          string `json:"node"`
	Transport     string `json:"transport"`
	Protocol      string `json:"protocol"`
	Addr          string `json:"addr,omitempty"`
	AppName       string `json:"app_name,omitempty"`
	ConnectedAt   int64  `json:"connected_at_ms"`
	Subscriptions int    `json:"subscriptions"`
	Queue         int    `json:"queue,omitempty"`
	// Operator: the admin interface has made it, to watch a channel.
	Operator bool `json:"operator,omitempty"`
}

// lister answers with the list. Simultaneous requests share one survey.
type lister struct {
	node clients

	turn   chan struct{} // is full during a survey; guards the fields below
	latest *listing
	until  time.Time // when latest is too old
}

func newLister(n clients) *lister { return &lister{node: n, turn: make(chan struct{}, 1)} }

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, err := l.list(r.Context())
	if err != nil {
		http.Error(w, "Service Unavailable: "+strings.TrimPrefix(err.Error(), "gyro: "), http.StatusServiceUnavailable)
		return
	}
	admin.Answer(w, found)
}

// list asks the nodes, unless it did so within listAge.
func (l *lister) list(ctx context.Context) (*listing, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.latest != nil && time.Now().Before(l.until) {
		return l.latest, nil
	}
	// A caller that goes away does not end the survey for the other callers.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listPatience)
	defer cancel()
	infos, err := l.node.Cluster().Nodes(ctx)
	if err != nil {
		return nil, err
	}
	found, err := l.node.Inspect().Connections(ctx, inspect.Filter{Limit: min(listLimit, max(listLeast, listTotal/max(len(infos), 1)))})
	of := &listing{More: found.More, Connections: make([]listItem, 0, len(found.List))}
	switch {
	case errors.Is(err, gyro.ErrNoAnswer):
		of.Incomplete = strings.TrimPrefix(err.Error(), "gyro: ")
	case err != nil:
		return nil, err
	}
	for _, n := range infos {
		of.Clients += n.NumClients
	}
	for i := range found.List {
		of.Connections = append(of.Connections, itemOf(&found.List[i]))
	}
	slices.Reverse(of.Connections) // the newest first
	l.latest, l.until = of, time.Now().Add(listAge)
	return of, nil
}

func itemOf(c *inspect.Connection) listItem {
	return listItem{
		Client: c.Client, User: c.User, Node: c.Node, Transport: c.Transport, Protocol: c.Protocol, Addr: c.Addr, AppName: c.AppName,
		ConnectedAt: c.ConnectedAt.UnixMilli(), Subscriptions: len(c.Channels), Queue: c.Queue, Operator: c.User == tailUser,
	}
}
