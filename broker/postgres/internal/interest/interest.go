// Package interest knows which channels a node delivers, and from which row on.
//
// Rows that were committed before a subscription may still be unread by the node when the subscription begins. So Subscribe asks
// the database for the newest rows, in one query for all calls at a time, and only later rows are delivered to the channels.
package interest

import (
	"context"
	"strings"
	"sync"

	"github.com/gyrohq/gyro/broker/postgres/internal/groupcommit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

const (
	// maxNamed is how many channels of a shard are named to the server, so that it sends their rows only. Beyond that it
	// sends all rows: most nodes with so many subscriptions need most rows.
	maxNamed = 128
	// maxGathered is how many calls of Subscribe share a query.
	maxGathered = 10_000
	// tables is how many tables have rows of channels.
	tables = 2
)

// Rows are the ids of rows by table.
type Rows [tables]int64

// Set is the channels that a node delivers. Any goroutine may call the methods.
type Set struct {
	shards []shard
	lane   *groupcommit.Lane[*call]
}

type shard struct {
	mu       sync.RWMutex
	channels map[string]*begin // nil: all rows that come are delivered
	added    uint64            // how many channels were added so far
	turn     sync.Mutex        // of calls of the handler
}

// begin is where the delivery of a channel begins. The shard's mu guards it.
type begin struct {
	ch    string
	shard int
	known bool
	lost  [tables]bool // the table went back before the begin was known
	after Rows
}

// call is a call of Subscribe that waits.
type call struct {
	groupcommit.Job
	begins []*begin
	err    error
}

// CommitJob implements groupcommit.Item.
func (c *call) CommitJob() *groupcommit.Job { return &c.Job }

// New returns an empty set. unread asks the database for the newest rows of shards that the node has not read yet: it returns
// their ids, 0 if there are none. If it returns nil, they are not known, and nothing is left out. run runs a function on a
// goroutine; it returns false if there are no more goroutines.
func New(shards int, unread func(shards []int32) ([]Rows, error), run func(func()) bool) *Set {
	s := &Set{shards: make([]shard, shards)}
	for i := range s.shards {
		s.shards[i].channels = make(map[string]*begin)
	}
	s.lane = &groupcommit.Lane[*call]{
		Write: func(batch []*call) { s.ask(batch, unread) },
		Fail:  func(c *call, err error) { c.err = err },
		Fits:  func(batch []*call, _ *call) bool { return len(batch) < maxGathered },
		Go:    run,
	}
	return s
}

// Close makes calls of Subscribe fail.
func (s *Set) Close() { s.lane.Close() }

func (s *Set) of(ch string) *shard { return &s.shards[schema.ShardOf(ch, len(s.shards))] }

// Subscribe adds channels. When it has returned, they are delivered from a row on that was committed during the call.
func (s *Set) Subscribe(ctx context.Context, channels []string) error {
	c := &call{begins: s.add(channels)}
	if len(c.begins) == 0 {
		return nil
	}
	group := groupcommit.NewGroup(1)
	group.Join(&c.Job)
	s.lane.Add(c)
	if err := group.Wait(ctx); err != nil && !c.Done() {
		return err
	}
	return c.err
}

// add adds channels, and returns the begins that are not known yet.
func (s *Set) add(channels []string) (unknown []*begin) {
	for _, ch := range channels {
		index := schema.ShardOf(ch, len(s.shards))
		of := &s.shards[index]
		of.mu.Lock()
		b, there := of.channels[ch]
		if !there {
			ch = strings.Clone(ch)
			b = &begin{ch: ch, shard: index}
			of.channels[ch] = b
			of.added++
		}
		if b != nil && !b.known {
			unknown = append(unknown, b)
		}
		of.mu.Unlock()
	}
	return unknown
}

// ask finds out where the channels of calls begin.
func (s *Set) ask(batch []*call, unread func([]int32) ([]Rows, error)) {
	var shards []int32
	place := make([]int, len(s.shards)) // of a shard among them, from 1 on
	for _, c := range batch {
		for _, b := range c.begins {
			if place[b.shard] == 0 {
				shards = append(shards, int32(b.shard))
				place[b.shard] = len(shards)
			}
		}
	}
	newest, err := unread(shards)
	for _, c := range batch {
		c.err = err
		for _, b := range c.begins {
			if err == nil {
				var after Rows
				if newest != nil {
					after = newest[place[b.shard]-1]
				}
				s.shards[b.shard].begin(b, after)
			}
		}
	}
}

// begin notes the rows after which the delivery of a channel begins.
func (s *shard) begin(b *begin, after Rows) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.known {
		return
	}
	b.known = true
	for table := range after {
		if b.lost[table] {
			after[table] = 0
		}
	}
	b.after = after
	if after == (Rows{}) && s.channels[b.ch] == b {
		s.channels[b.ch] = nil
	}
}

// Remove removes channels.
func (s *Set) Remove(channels []string) {
	for _, ch := range channels {
		of := s.of(ch)
		of.mu.Lock()
		delete(of.channels, ch)
		of.mu.Unlock()
	}
}

// Has tells whether a row of a channel is to be delivered.
func (s *Set) Has(ch string, table int, id int64) bool {
	of := s.of(ch)
	of.mu.RLock()
	defer of.mu.RUnlock()
	b, ok := of.channels[ch]
	return ok && (b == nil || b.known && id > b.after[table])
}

// Lost notes that a table has lost rows of a shard, so that ids come again.
func (s *Set) Lost(table, shard int) {
	of := &s.shards[shard]
	of.mu.Lock()
	defer of.mu.Unlock()
	for _, b := range of.channels {
		if b != nil {
			b.lost[table], b.after[table] = true, 0
		}
	}
}

// Turn takes the turn of a shard to call the handler, and returns what gives it back.
func (s *Set) Turn(shard int) func() {
	s.shards[shard].turn.Lock()
	return s.shards[shard].turn.Unlock
}

// Wanted returns the channels of a shard for outbox.Table.Want.
func (s *Set) Wanted(shard int, any bool) (list any, all bool, unchanged func() bool) {
	of := &s.shards[shard]
	of.mu.RLock()
	defer of.mu.RUnlock()
	if any || len(of.channels) > maxNamed {
		return nil, true, nil
	}
	names := make([]string, 0, len(of.channels))
	for ch := range of.channels {
		names = append(names, ch)
	}
	before := of.added
	return names, false, func() bool {
		of.mu.RLock()
		defer of.mu.RUnlock()
		return of.added == before
	}
}
