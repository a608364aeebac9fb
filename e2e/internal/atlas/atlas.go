// Package atlas has maps that change all the time, and clients that follow them as an SDK does. It tells whether the
// clients have the entries of the server.
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

type Options struct {
	Nodes []string
	// Maps is how many channels "map:N" there are, each with a writer, and beside it a channel "brief:N" whose entries
	// expire. Of the Clients, two thirds follow the first, the others the second.
	Maps, Clients int
	// Every is the pause of a writer, AnswerLimit bounds an answer of the server API.
	Every, AnswerLimit time.Duration
	// Note hears of each answer to a writer, Fail of each event that must not happen.
	Note func(err error, took time.Duration)
	Fail func(what string)
}

type Atlas struct {
	opts    Options
	http    http.Client
	still   sync.RWMutex // locked for writing while nothing may change
	writers []*writer
	clients []*client
}

// Counts since the Compare before.
type Counts struct {
	Changes int
	Told    int
	// Forgotten is how many maps differed from the acknowledged changes.
	Forgotten int
	// Wrong are the clients without the right entries in the end.
	Wrong []string
}

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

func rotated(list []string, i int) []string {
	i %= len(list)
	return slices.Concat(list[i:], list[:i])
}

func (a *Atlas) Follow(ctx context.Context, work *sync.WaitGroup) {
	for _, c := range a.clients {
		work.Go(func() { c.run(ctx) })
	}
}

func (a *Atlas) Write(ctx context.Context, work *sync.WaitGroup) {
	context.AfterFunc(ctx, a.http.CloseIdleConnections)
	for _, w := range a.writers {
		work.Go(func() { w.work(ctx) })
	}
}

// Changed returns a function that reports whether each map has an acknowledged change since this call.
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

func (a *Atlas) Live() bool {
	return !slices.ContainsFunc(a.clients, func(c *client) bool { return !c.isLive() })
}

func (a *Atlas) Clients() int { return len(a.clients) }

// Compare stops the writers, and waits until all clients have the entries of the server, at most for patience. It
// compares these entries with the acknowledged changes.
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
