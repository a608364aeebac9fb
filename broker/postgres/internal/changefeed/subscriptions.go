package changefeed

import (
	"context"
	"strings"
	"sync"

	"github.com/gyrohq/gyro/broker/postgres/internal/groupcommit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

const (
	// maxNamed is how many channels of a shard are named to the server, so that it sends only their rows. A node with
	// more most likely needs most rows.
	maxNamed = 128
	// maxGathered is how many calls of Subscribe share a query.
	maxGathered = 10_000
	tableCount  = 2
)

// RowIDs are the ids of rows by table.
type RowIDs [tableCount]int64

// Subscriptions are the channels that a node delivers. Any goroutine may call the methods. When a subscription begins,
// the node may not have read earlier rows yet. So Subscribe asks the database for the newest rows, in one query for all
// calls at a time, and only later rows are delivered.
type Subscriptions struct {
	shards []shardSubscriptions
	queue  *groupcommit.Queue[*subscribeCall]
}

type shardSubscriptions struct {
	mu       sync.RWMutex
	channels map[string]*channelStart // nil: all rows that come are delivered
	added    uint64                   // how many channels were added so far
	calling  sync.Mutex               // of calls of the handler
}

// channelStart is where the delivery of a channel begins. The shard's mu guards it.
type channelStart struct {
	ch    string
	shard int
	known bool
	lost  [tableCount]bool // the table went back before the begin was known
	after RowIDs
}

type subscribeCall struct {
	groupcommit.Job
	begins []*channelStart
	err    error
}

func (c *subscribeCall) CommitJob() *groupcommit.Job { return &c.Job }

// NewSubscriptions returns an empty set. unread asks the database for the newest rows of shards that the node has not
// read yet: their ids, 0 for none, or nil if they are not known; then nothing is left out. run runs a function on a
// goroutine; it returns false if there are no more.
func NewSubscriptions(shards int, unread func(shards []int32) ([]RowIDs, error), run func(func()) bool) *Subscriptions {
	s := &Subscriptions{shards: make([]shardSubscriptions, shards)}
	for i := range s.shards {
		s.shards[i].channels = make(map[string]*channelStart)
	}
	s.queue = &groupcommit.Queue[*subscribeCall]{
		Write: func(batch []*subscribeCall) { s.ask(batch, unread) },
		Fail:  func(c *subscribeCall, err error) { c.err = err },
		Fits:  func(batch []*subscribeCall, _ *subscribeCall) bool { return len(batch) < maxGathered },
		Go:    run,
	}
	return s
}

// Close makes calls of Subscribe fail.
func (s *Subscriptions) Close() { s.queue.Close() }

func (s *Subscriptions) of(ch string) *shardSubscriptions {
	return &s.shards[schema.ShardOf(ch, len(s.shards))]
}

// Subscribe adds channels. When it has returned, they are delivered from a row of the time of the call on.
func (s *Subscriptions) Subscribe(ctx context.Context, channels []string) error {
	c := &subscribeCall{begins: s.add(channels)}
	if len(c.begins) == 0 {
		return nil
	}
	group := groupcommit.NewGroup(1)
	group.Join(&c.Job)
	s.queue.Add(c)
	if err := group.Wait(ctx); err != nil && !c.Done() {
		return err
	}
	return c.err
}

// add returns the starts that are not known yet.
func (s *Subscriptions) add(channels []string) (unknown []*channelStart) {
	for _, ch := range channels {
		index := schema.ShardOf(ch, len(s.shards))
		of := &s.shards[index]
		of.mu.Lock()
		b, there := of.channels[ch]
		if !there {
			ch = strings.Clone(ch)
			b = &channelStart{ch: ch, shard: index}
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

func (s *Subscriptions) ask(batch []*subscribeCall, unread func([]int32) ([]RowIDs, error)) {
	var shards []int32
	index := make([]int, len(s.shards)) // of a shard among them, from 1 on
	for _, c := range batch {
		for _, b := range c.begins {
			if index[b.shard] == 0 {
				shards = append(shards, int32(b.shard))
				index[b.shard] = len(shards)
			}
		}
	}
	newest, err := unread(shards)
	for _, c := range batch {
		c.err = err
		for _, b := range c.begins {
			if err == nil {
				var after RowIDs
				if newest != nil {
					after = newest[index[b.shard]-1]
				}
				s.shards[b.shard].begin(b, after)
			}
		}
	}
}

func (s *shardSubscriptions) begin(b *channelStart, after RowIDs) {
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
	if after == (RowIDs{}) && s.channels[b.ch] == b {
		s.channels[b.ch] = nil
	}
}

// Remove removes channels.
func (s *Subscriptions) Remove(channels []string) {
	for _, ch := range channels {
		of := s.of(ch)
		of.mu.Lock()
		delete(of.channels, ch)
		of.mu.Unlock()
	}
}

// Has tells whether a row is to be delivered.
func (s *Subscriptions) Has(ch string, table int, id int64) bool {
	of := s.of(ch)
	of.mu.RLock()
	defer of.mu.RUnlock()
	b, ok := of.channels[ch]
	return ok && (b == nil || b.known && id > b.after[table])
}

// Lost notes that a table lost rows of a shard, so that ids come again.
func (s *Subscriptions) Lost(table, shard int) {
	of := &s.shards[shard]
	of.mu.Lock()
	defer of.mu.Unlock()
	for _, b := range of.channels {
		if b != nil {
			b.lost[table], b.after[table] = true, 0
		}
	}
}

// Exclude locks the calls of the handler for a shard, and returns the function that unlocks them.
func (s *Subscriptions) Exclude(shard int) func() {
	s.shards[shard].calling.Lock()
	return s.shards[shard].calling.Unlock
}

// Wanted returns the channels of a shard for outbox.Table.Want.
func (s *Subscriptions) Wanted(shard int, any bool) (list any, all bool, unchanged func() bool) {
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
