package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/protocol"
)

// A page ends with the step of a walk that reaches a bound.
const (
	pageConnections = 500
	pageChannels    = 5_000
	pageBytes       = 256 << 10 // about; NATS carries 1 MiB by default
	// pageTime is how long a node looks for the connections of a page.
	pageTime = 2 * time.Second
)

// How many snapshots a node may have under way, and after how long without a request one is forgotten.
const (
	maxSnapshots = 16
	forgetAfter  = 4 * time.Minute // the asking node takes a page of each of atATime nodes in turns, each within 20 s
)

type snapshots struct {
	mu sync.Mutex
	m  map[string]*snapshot
}

// snapshot is a walk over the connections of this node. Its fields belong to the goroutine that has taken it out of the
// map.
type snapshot struct {
	*selection
	walk   *client.Walk
	page   uint32 // the next one
	forget *time.Timer
}

// take returns a snapshot, which is not in the map until put; nil if there is none.
func (s *snapshots) take(id string) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.m[id]
	if of != nil {
		of.forget.Stop()
		s.m[id] = nil // holds its place
	}
	return of
}

func (s *snapshots) reserve(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.m[id]; there {
		return errors.New("the snapshot has begun before")
	}
	if len(s.m) >= maxSnapshots {
		return fmt.Errorf("%d snapshots are under way at this node, which is the limit", maxSnapshots)
	}
	if s.m == nil {
		s.m = make(map[string]*snapshot)
	}
	s.m[id] = nil
	return nil
}

func (s *snapshots) put(id string, of *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[id] = of
	of.forget = time.AfterFunc(forgetAfter, func() {
		if of := s.take(id); of != nil {
			s.drop(id, of)
		}
	})
}

func (s *snapshots) drop(id string, of *snapshot) {
	if of != nil {
		of.walk.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, id)
}

func (i *Inspector) page(ctx context.Context, req *control.SnapshotRequest) (_ message, err error) {
	var of *snapshot
	if req.Page == 0 && !req.Close && req.Filter != nil {
		sel, err := i.selection(req.Filter)
		if err == nil {
			err = i.snapshots.reserve(req.ID)
		}
		if err != nil {
			return nil, err
		}
		of = &snapshot{selection: sel, walk: i.Clients.Walk()}
	} else if of = i.snapshots.take(req.ID); of == nil {
		return nil, errors.New("the snapshot is not known any more")
	}
	res := new(control.ConnectionsResponse)
	if !req.Close && req.Page == of.page {
		of.page++
		err = of.fill(ctx, of.walk, res)
	} else if !req.Close {
		err = fmt.Errorf("page %d of the snapshot is asked for, and page %d is the next one", req.Page, of.page)
	}
	if err == nil && res.More {
		i.snapshots.put(req.ID, of)
	} else {
		i.snapshots.drop(req.ID, of)
	}
	return res, err
}

func (s *selection) fill(ctx context.Context, walk *client.Walk, res *control.ConnectionsResponse) error {
	channels, size, began := 0, 0, time.Now()
	for res.More = true; res.More && len(res.Connections) < pageConnections && channels < pageChannels && size < pageBytes && time.Since(began) < pageTime; {
		list, more, err := s.step(ctx, walk)
		if err != nil {
			return err
		}
		res.More = more
		for n := range list {
			c := described(&list[n])
			res.Connections = append(res.Connections, c)
			channels += len(c.Subscriptions)
			size += len(c.Meta) + 200*(1+len(c.Subscriptions))
		}
	}
	res.Failed = s.failed
	return nil
}

const atATime = 8

// Snapshot calls see with all connections that f selects: one call at a time, with the pages of some nodes in turns. If
// nodes do not answer, or not to the end, the error wraps cluster.ErrNoAnswer and names them, after the pages of the
// others.
func (i *Inspector) Snapshot(ctx context.Context, f inspect.Filter, see func(inspect.Page) error) error {
	f.Limit = 0
	req, err := i.request(&f)
	if err != nil {
		return err
	}
	nodes, err := i.Nodes(ctx)
	if err != nil {
		return err
	}
	fetching, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		work    sync.WaitGroup
		turn    sync.Mutex // guards the fields below
		missing []string
		first   error
		stop    error // of see
	)
	one := func(p inspect.Page) error {
		turn.Lock()
		defer turn.Unlock()
		if stop == nil {
			if stop = see(p); stop != nil {
				cancel()
			}
		}
		return stop
	}
	room := make(chan struct{}, atATime)
	for _, node := range nodes {
		room <- struct{}{}
		if fetching.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-room }()
			err := i.fetch(fetching, node, req, one)
			turn.Lock()
			defer turn.Unlock()
			if err != nil && fetching.Err() == nil {
				missing = append(missing, node.UID)
				first = cmp.Or(first, err)
			}
		})
	}
	work.Wait()
	if err := cmp.Or(stop, ctx.Err()); err != nil {
		return err
	}
	if first != nil {
		return fmt.Errorf("%w to the end: %s: %w", cluster.ErrNoAnswer, strings.Join(missing, ", "), first)
	}
	return nil
}

func (i *Inspector) fetch(ctx context.Context, node inspect.Node, filter *control.ConnectionsRequest, see func(inspect.Page) error) error {
	req := &control.SnapshotRequest{ID: uuid.NewString(), Filter: filter}
	for more := true; more; req.Page, req.Filter = req.Page+1, nil {
		var res control.ConnectionsResponse
		page, cancel := context.WithTimeout(ctx, cluster.Timeout)
		err := i.ask(page, opSnapshot, req, node.UID, func(_ string, data []byte) error { return res.UnmarshalProto(data) })
		cancel()
		if err == nil {
			more = res.More
			part := inspect.Page{Node: node.UID, Name: node.Name, Failed: res.Failed, Connections: make([]inspect.Connection, len(res.Connections))}
			for n, c := range res.Connections {
				part.Connections[n] = connection(node.UID, c)
			}
			err = see(part)
		}
		if err != nil {
			if more {
				i.giveUp(ctx, node.UID, req.ID)
			}
			return err
		}
	}
	return nil
}

// giveUp tells a node that no more pages are fetched. A node that does not hear of it forgets the snapshot later.
func (i *Inspector) giveUp(ctx context.Context, uid, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	req := &control.SnapshotRequest{ID: id, Close: true}
	_, _ = i.Survey(ctx, opSnapshot, req.AppendProto(nil), uid)
}

// Users calls see with the users of this node's connections, without anonymous ones: some hundreds at a time, and each
// once per loop. It returns the error of see, or of ctx.
func (i *Inspector) Users(ctx context.Context, see func(users []string) error) error {
	walk := i.Clients.Walk()
	defer walk.Close()
	for {
		list, more, err := walk.Users(ctx)
		if err == nil && len(list) > 0 {
			err = see(list)
		}
		if err != nil || !more {
			return err
		}
	}
}

// selection are the conditions of a filter, on the node that has the connections.
type selection struct {
	inspect.Filter
	labels    func(map[string]string) bool
	condition inspect.Condition // nil: none
	failed    string            // its first error
	until     time.Time         // when step stops; the zero time: never
	late      bool              // step has stopped
}

// step returns the next connections that are selected, perhaps none, and whether there are more.
func (s *selection) step(ctx context.Context, walk *client.Walk) (list []inspect.Connection, more bool, err error) {
	list, more, err = walk.Connections(ctx, &s.Filter, s.labels)
	if err != nil || s.condition == nil {
		return list, more, err
	}
	kept := list[:0]
	for n := range list {
		if s.late = !s.until.IsZero() && time.Now().After(s.until); s.late || ctx.Err() != nil {
			return kept, true, ctx.Err()
		}
		if s.selects(ctx, &list[n]) {
			kept = append(kept, list[n])
		}
	}
	return kept, more, nil
}

func (s *selection) selects(ctx context.Context, c *inspect.Connection) bool {
	yes, err := s.condition(ctx, c)
	if err != nil && s.failed == "" {
		s.failed = err.Error()
	}
	return err == nil && yes
}

func (s *selection) search(ctx context.Context, walk *client.Walk, limit int) (res *control.ConnectionsResponse, err error) {
	defer walk.Close()
	res = new(control.ConnectionsResponse)
	s.until = time.Now().Add(searchTime)
	channels := 0
	for more := true; more && !res.More; {
		var list []inspect.Connection
		if list, more, err = s.step(ctx, walk); err != nil {
			return nil, err
		}
		for n := range list {
			if channels += len(list[n].Channels); len(res.Connections) == limit || channels > inspect.MaxChannels {
				res.More = true
				break
			}
			res.Connections = append(res.Connections, described(&list[n]))
		}
		if s.late {
			res.More = true
			if s.failed == "" {
				s.failed = fmt.Sprintf("the node has looked at a part of its connections only, because that took %v", searchTime)
			}
		}
	}
	res.Failed = s.failed
	return res, nil
}

// searchTime is how long a node evaluates an expression; its answer has the connections found so far.
const searchTime = 4 * time.Second

var errNoExpressions = fmt.Errorf("%w: %w: this node evaluates none: see gyro.Config.Expressions", protocol.ErrorBadRequest, inspect.ErrExpression)
