package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
	"github.com/gyrohq/gyro/channel"
)

type sort int

const (
	ofStreams sort = iota
	ofMaps
	ofControl
)

// sorts has the words of health and log. The messages of the log are constants.
var sorts = [...]struct{ what, refused, taken string }{
	ofStreams: {"publications with history", "postgres takes no publications with history", "postgres takes publications with history again"},
	ofMaps:    {"changes of maps", "postgres takes no changes of maps", "postgres takes changes of maps again"},
	ofControl: {"messages between nodes", "postgres takes no messages between nodes", "postgres takes messages between nodes again"},
}

// target is where a transaction writes. All control messages are in shard 0.
type target struct {
	sort  sort
	shard int
}

// proof tells whether PostgreSQL takes what nodes write. Signs of life are written every few seconds: while no
// transaction fails or hangs, that is proven. When one fails, its target is in doubt, and the node publishes a sample
// there until one succeeds. The node is not healthy while samples fail, and from the moment when a transaction hangs.
type proof struct {
	doubts chan struct{} // has an element when there are doubts

	mu      sync.Mutex
	targets map[target]fault // that are in doubt
}

type fault struct {
	reason error     // nil: no sample has failed yet
	hung   time.Time // since when there is no answer, if that is the reason; zero: there was one
}

const (
	// sampleEvery is the least time between samples, and sampleTimeout how long one may take.
	sampleEvery   = time.Second
	sampleTimeout = 3 * time.Second
	sampleTTL     = time.Minute
	// hangsAfter is when a transaction counts as hanging. A canary may take as long.
	hangsAfter = 3 * time.Second
	askTimeout = time.Second
)

func (p *proof) doubt(at target) {
	p.mu.Lock()
	if _, known := p.targets[at]; !known {
		p.targets[at] = fault{}
	}
	p.mu.Unlock()
	p.wake()
}

func (p *proof) wake() { enginekit.Signal(p.doubts) }

// fail reports whether all transactions of this sort succeeded before. A hanging transaction stays the reason until
// PostgreSQL answers: the sample waits behind it in the queue, and its timeout says less.
func (p *proof) fail(at target, f fault) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news = p.fails(at.sort) == nil
	if !p.targets[at].hung.IsZero() && errors.Is(f.reason, context.DeadlineExceeded) {
		return false
	}
	p.targets[at] = f
	return news
}

// hungSince returns since when a target gives no answer, if its last transaction began at began and has none.
func (p *proof) hungSince(at target, began time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.targets[at].hung; !first.IsZero() {
		return first
	}
	return began
}

// succeed notes that a sample was written, and tells whether the whole sort is well again.
func (p *proof) succeed(at target) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := p.targets[at].reason != nil
	delete(p.targets, at)
	return failed && p.fails(at.sort) == nil
}

// fails returns the failure of the first shard of a sort that fails. mu is held.
func (p *proof) fails(of sort) (reason error) {
	least := -1
	for at, f := range p.targets {
		if at.sort == of && f.reason != nil && (least < 0 || at.shard < least) {
			least, reason = at.shard, f.reason
		}
	}
	return reason
}

func (p *proof) doubtful() (list []target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.targets {
		list = append(list, at)
	}
	return list
}

func (p *proof) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, words := range sorts {
		if reason := p.fails(sort(of)); reason != nil {
			return fmt.Errorf("%s fail: %w", words.what, reason)
		}
	}
	return nil
}

// prove writes samples where there are doubts.
func (b *Broker) prove(ctx context.Context) {
	names := make(map[target]string)
	for {
		select {
		case <-b.proof.doubts:
		case <-ctx.Done():
			return
		}
		var samples sync.WaitGroup
		for _, at := range b.proof.doubtful() {
			name := names[at]
			if name == "" {
				name = b.sampleName(at.shard)
				names[at] = name
			}
			samples.Go(func() { b.try(ctx, at, name) })
		}
		samples.Wait()
		select {
		case <-time.After(sampleEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (b *Broker) sampleName(shard int) string {
	for {
		if name := "gyro:sample:" + rand.Text(); b.alone || schema.ShardOf(name, b.cfg.NumShards) == shard {
			return name
		}
	}
}

func (b *Broker) try(ctx context.Context, at target, name string) {
	err := b.sample(ctx, at, name)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if b.proof.succeed(at) {
			b.cfg.Logger.Info(sorts[at.sort].taken, "engine", b.part)
		}
	default:
		b.fail(at, fault{reason: err})
		b.proof.wake()
	}
}

func (b *Broker) fail(at target, f fault) {
	if b.proof.fail(at, f) {
		b.cfg.Logger.Error(sorts[at.sort].refused, "engine", b.part, "error", f.reason)
	}
}

func (b *Broker) sample(ctx context.Context, at target, name string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	data := []byte("{}")
	switch at.sort {
	case ofStreams:
		_, err = b.Publish(ctx, name, &channel.Publication{Data: data},
			broker.PublishOptions{HistorySize: 1, HistoryTTL: sampleTTL, HistoryMetaTTL: sampleTTL})
	case ofMaps:
		_, err = maps{b}.Change(ctx, name, &channel.Publication{Key: "sample", Data: data},
			channel.MapOptions{KeyTTL: sampleTTL, StreamSize: 1, StreamTTL: sampleTTL, MetaTTL: sampleTTL})
	case ofControl:
		err = b.PublishControl(ctx, name, nil) // to a node that does not exist
	}
	return err
}

func (b *Broker) set(of sort) (name, functions string) {
	switch of {
	case ofStreams:
		return b.sets.Stream.Name, b.sets.Stream.Name + "_publish_"
	case ofMaps:
		return b.sets.Map.Name, b.sets.Map.Name + "_"
	default:
		return b.sets.Control.Name, b.sets.Control.Name + "_"
	}
}

// hangs notes that a transaction has had no answer since it began. ctx ends with the transaction.
func (b *Broker) hangs(ctx context.Context, at target, began time.Time) {
	name, functions := b.set(at.sort)
	in := name
	if at.sort != ofControl {
		in = fmt.Sprintf("shard %d of %s", at.shard, name)
	}
	why := b.why(functions)
	if errors.Is(ctx.Err(), context.Canceled) {
		return // meanwhile there was an answer
	}
	since := b.proof.hungSince(at, began)
	reason := fmt.Errorf("a transaction in %s has had no answer since %s%s", in, since.UTC().Format(time.RFC3339), why)
	b.fail(at, fault{reason: reason, hung: since})
	b.proof.wake()
}

// waits finds what the transactions of this user that call certain functions wait for, and the holder of the lock. The
// oldest comes first: transactions of other nodes and shards may wait for it.
const waits = `SELECT a.wait_event_type, a.wait_event, h.pid, coalesce(h.application_name, ''), coalesce(h.state, '') FROM pg_stat_activity a
	LEFT JOIN LATERAL (SELECT x.* FROM pg_stat_activity x WHERE x.pid = ANY (pg_blocking_pids(a.pid)) ORDER BY x.xact_start LIMIT 1) h ON true
	WHERE a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid() AND a.state = 'active'
	AND a.wait_event IS NOT NULL AND strpos(a.query, $1) > 0 AND a.xact_start < clock_timestamp() - interval '1 second'
	ORDER BY a.xact_start LIMIT 1`

func (b *Broker) why(functions string) string {
	ctx, cancel := context.WithTimeout(b.lifetime, askTimeout)
	defer cancel()
	var kind, event, program, state string
	var holder *int32
	err := b.db.QueryRow(ctx, waits, functions).Scan(&kind, &event, &holder, &program, &state)
	switch {
	case err != nil:
		return ""
	case holder == nil:
		return fmt.Sprintf(": it waits for %s (%s)", event, kind)
	}
	return fmt.Sprintf(": it waits for %s (%s) because of process %d of PostgreSQL (%q, %s)", event, kind, *holder, program, state)
}
