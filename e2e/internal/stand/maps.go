package stand

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

// The namespaces of maps: the entries of the second expire.
const (
	mapNamespace   = "map"
	briefNamespace = "brief"
)

// atlas has the maps of a stand, their writers and subscribers.
type atlas struct {
	still   sync.RWMutex
	writers []*mapWriter
	clients []*mapClient
}

// MapCounts is what happened to maps in a span.
type MapCounts struct {
	// Changes is how many live changes the subscribers got.
	Changes int
	// Told is how often the server told a subscriber to begin anew.
	Told int
	// Forgotten is how many maps were not what had been acknowledged.
	Forgotten int
	// Wrong are the subscribers that did not come to have the entries of their map.
	Wrong []string
}

// draw starts the subscribers of maps, and then the writers.
func (s *Stand) draw(work *sync.WaitGroup) {
	s.tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	s.tb.Cleanup(transport.CloseIdleConnections)
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range s.opts.Maps {
		name := fmt.Sprintf("%s:%d", mapNamespace, i)
		brief := fmt.Sprintf("%s:%d", briefNamespace, i)
		for k := range s.opts.MapSubscribers {
			c := &mapClient{channel: name, fail: s.failed, nodes: rotated(s.Nodes, i+k)}
			if k%3 == 2 {
				c.channel = brief
			}
			s.atlas.clients = append(s.atlas.clients, c)
			work.Go(func() { c.run(s.ctx) })
		}
		s.atlas.writers = append(s.atlas.writers, &mapWriter{
			channel: name, brief: brief, run: run, nodes: rotated(s.Nodes, i), every: s.opts.Every, fail: s.failed, still: &s.atlas.still,
			client: &http.Client{Transport: transport, Timeout: s.opts.AnswerLimit}, answers: &s.answers, entries: make(map[string]string),
		})
	}
	s.await("the subscriptions to maps", func() bool {
		return !slices.ContainsFunc(s.atlas.clients, func(c *mapClient) bool { return !c.isLive() })
	})
	for _, w := range s.atlas.writers {
		work.Go(func() { w.work(s.ctx) })
	}
}

// compare stops the writers for a moment, waits until all subscribers have what the server has, and compares that
// with what was acknowledged.
func (s *Stand) compare() (sum MapCounts) {
	s.tb.Helper()
	s.atlas.still.Lock()
	defer s.atlas.still.Unlock()
	want := make(map[string]map[string]string)
	s.await("the expiry of entries", func() bool {
		return !slices.ContainsFunc(s.atlas.writers, func(w *mapWriter) bool {
			want[w.brief] = s.entries(w.nodes[0], w.brief)
			return len(want[w.brief]) > 0
		})
	})
	for i, w := range s.atlas.writers {
		has := s.entries(w.nodes[i%len(w.nodes)], w.channel)
		want[w.channel] = maps.Clone(has)
		// A change of a race that was answered with an error may have come after the key was removed.
		maps.DeleteFunc(has, func(key, _ string) bool { return strings.HasPrefix(key, raceKey) })
		if !maps.Equal(has, w.entries) {
			sum.Forgotten++
			w.entries = has
		}
	}
	deadline := time.Now().Add(patience)
	for _, c := range s.atlas.clients {
		for !c.shows(want[c.channel]) && time.Now().Before(deadline) {
			sleep(s.ctx, 10*time.Millisecond)
		}
		if !c.shows(want[c.channel]) {
			sum.Wrong = append(sum.Wrong, c.describe(want[c.channel]))
		}
		told, changes := c.count()
		sum.Told += told
		sum.Changes += changes
	}
	return sum
}

// entries reads a map, page by page.
func (s *Stand) entries(node, channel string) map[string]string {
	s.tb.Helper()
	client := http.Client{Timeout: s.opts.AnswerLimit}
	defer client.CloseIdleConnections()
	all := make(map[string]string)
	for cursor := ""; ; {
		var page struct {
			Entries []struct {
				Key  string
				Data json.RawMessage
			}
			Cursor string
		}
		err := rig.Call(context.Background(), &client, node, "map_read_state", map[string]any{"channel": channel, "limit": mapPage, "cursor": cursor}, &page)
		if err != nil {
			s.tb.Fatalf("map_read_state of %s: %v", channel, err)
		}
		for _, e := range page.Entries {
			all[e.Key] = compact(e.Data)
		}
		if cursor = page.Cursor; cursor == "" {
			return all
		}
	}
}

// compact is JSON without white space, which PostgreSQL inserts.
func compact(data []byte) string { return strings.ReplaceAll(string(data), " ", "") }
