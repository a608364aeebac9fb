// Package atlas has maps whose entries change all the time, and clients that follow them as an SDK does. It tells whether the
// clients came to have the entries of the server.
package atlas

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

// Options of an Atlas.
type Options struct {
	// Nodes are the addresses of the nodes, host:port.
	Nodes []string
	// Maps is how many channels "map:N" there are, each with a writer, and beside it a channel "brief:N" whose entries
	// expire. Clients is how many follow one of the two: two thirds the first, the others the second.
	Maps, Clients int
	// Every is how long a writer waits between changes, AnswerLimit how long an answer of the server API may take.
	Every, AnswerLimit time.Duration
	// Note is called with each answer to a writer, Fail with each event that must not happen.
	Note func(err error, took time.Duration)
	Fail func(what string)
}

// Atlas has maps, their writers and clients.
type Atlas struct {
	opts    Options
	http    http.Client
	still   sync.RWMutex // locked for writing while nothing may change
	writers []*writer
	clients []*client
}

// Counts of the events since the Compare before.
type Counts struct {
	// Changes is how many live changes the clients got.
	Changes int
	// Told is how often the server told a client to begin anew.
	Told int
	// Forgotten is how many maps differed from the acknowledged changes.
	Forgotten int
	// Wrong are the clients that did not get the right entries of their map in the end.
	Wrong []string
}

// New makes an atlas without running clients and writers.
func New(opts Options) *Atlas {
	a := &Atlas{opts: opts, http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}, Timeout: opts.AnswerLimit}}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range opts.Maps {
		w := &writer{
			channel: fmt.Sprint("map:", i), brief: fmt.Sprint("brief:", i), run: run, nodes: rotated(opts.Nodes, i), every: opts.Every,
			client: &a.http, note: opts.Note, fail: opts.Fail, still: &a.still, entries: make(map[string]string),
		}
		a.writers = append(a.writers, w)
		for k := range opts.Clients {
			c := &client{channel: w.channel, fail: opts.Fail, nodes: rotated(opts.Nodes, i+k)}
			if k%3 == 2 {
				c.channel = w.brief
			}
			a.clients = append(a.clients, c)
		}
	}
	return a
}

// rotated returns a list that begins with number i.
func rotated(list []string, i int) []string {
	i %= len(list)
	return slices.Concat(list[i:], list[:i])
}

// Follow runs the clients until ctx ends.
func (a *Atlas) Follow(ctx context.Context, work *sync.WaitGroup) {
	for _, c := range a.clients {
		work.Go(func() { c.run(ctx) })
	}
}

// Write runs the writers until ctx ends.
func (a *Atlas) Write(ctx context.Context, work *sync.WaitGroup) {
	context.AfterFunc(ctx, a.http.CloseIdleConnections)
	for _, w := range a.writers {
		work.Go(func() { w.work(ctx) })
	}
}

// Changed returns a function that reports whether an entry of each map was set since this call, and that was acknowledged.
func (a *Atlas) Changed() func() bool {
	before := make(map[*writer]int64)
	for _, w := range a.writers {
		before[w] = w.set.Load()
	}
	// The change that is under way now may have been made before.
	return func() bool {
		return !slices.ContainsFunc(a.writers, func(w *writer) bool { return w.set.Load() < before[w]+2 })
	}
}

// Live tells whether all clients are live.
func (a *Atlas) Live() bool {
	return !slices.ContainsFunc(a.clients, func(c *client) bool { return !c.isLive() })
}

// Clients is how many there are.
func (a *Atlas) Clients() int { return len(a.clients) }

// Compare stops the writers for a moment, and waits until all clients have the entries of the server, but no longer
// than patience. It compares the entries of the server with the acknowledged changes.
func (a *Atlas) Compare(patience time.Duration) (sum Counts, err error) {
	a.still.Lock()
	defer a.still.Unlock()
	deadline := time.Now().Add(patience)
	want := make(map[string]map[string]string)
	for i, w := range a.writers {
		if err := a.expired(w, deadline); err != nil {
			return sum, err
		}
		has, err := a.entries(w.nodes[i%len(w.nodes)], w.channel)
		if err != nil {
			return sum, err
		}
		want[w.channel] = maps.Clone(has)
		// A change of a race that was answered with an error may have come after the key was removed.
		maps.DeleteFunc(has, func(key, _ string) bool { return strings.HasPrefix(key, raceKey) })
		if !maps.Equal(has, w.entries) {
			sum.Forgotten++
			w.entries = has
		}
	}
	for _, c := range a.clients {
		for !c.shows(want[c.channel]) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if !c.shows(want[c.channel]) {
			sum.Wrong = append(sum.Wrong, c.describe(want[c.channel]))
		}
		told, changes := c.count()
		sum.Told += told
		sum.Changes += changes
	}
	return sum, nil
}

// expired waits until nothing is left of the map whose entries expire.
func (a *Atlas) expired(w *writer, deadline time.Time) error {
	for {
		left, err := a.entries(w.nodes[0], w.brief)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %v does not expire", w.brief, left)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// entries reads a map, page by page.
func (a *Atlas) entries(node, channel string) (map[string]string, error) {
	all := make(map[string]string)
	for cursor := ""; ; {
		var page struct {
			Entries []struct {
				Key  string
				Data json.RawMessage
			}
			Cursor string
		}
		if err := rig.Call(context.Background(), &a.http, node, "map_read_state", map[string]any{"channel": channel, "limit": pageSize, "cursor": cursor}, &page); err != nil {
			return nil, fmt.Errorf("map_read_state of %s: %w", channel, err)
		}
		for _, e := range page.Entries {
			all[e.Key] = compact(e.Data)
		}
		cursor = page.Cursor
		if cursor == "" {
			return all, nil
		}
	}
}

// compact is JSON without white space, which PostgreSQL inserts.
func compact(data []byte) string { return strings.ReplaceAll(string(data), " ", "") }
