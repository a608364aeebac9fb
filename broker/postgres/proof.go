package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// proof tells whether PostgreSQL takes publications with history. The signs of life of nodes are written every few seconds, so as
// long as no transaction fails, that is proven. When one fails, the node is not healthy until a sample succeeds: a publication
// into a channel without subscribers.
type proof struct {
	doubts chan struct{} // has an element when a transaction has failed
	reason atomic.Pointer[error]
}

const (
	// sampleEvery is the least time between samples, and sampleTimeout how long one may take.
	sampleEvery   = time.Second
	sampleTimeout = 3 * time.Second
	// sampleTTL is how long a sample is in the history, and its channel known.
	sampleTTL = time.Minute
)

// doubt notes that a transaction has failed.
func (p *proof) doubt() {
	select {
	case p.doubts <- struct{}{}:
	default:
	}
}

// err returns why publications with history fail, or nil.
func (p *proof) err() error {
	if reason := p.reason.Load(); reason != nil {
		return fmt.Errorf("publications with history fail: %w", *reason)
	}
	return nil
}

// prove publishes samples while there are doubts, until ctx ends.
func (b *Broker) prove(ctx context.Context) {
	name := "gyro:sample:" + rand.Text()
	for {
		select {
		case <-b.proof.doubts:
		case <-ctx.Done():
			return
		}
		err := b.sample(ctx, name)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if b.proof.reason.Swap(nil) != nil {
				b.cfg.Logger.Info("postgres takes publications with history again", "engine", b.part)
			}
		default:
			if b.proof.reason.Swap(&err) == nil {
				b.cfg.Logger.Error("postgres takes no publications with history", "engine", b.part, "error", err)
			}
			b.proof.doubt()
		}
		select {
		case <-time.After(sampleEvery):
		case <-ctx.Done():
			return
		}
	}
}

// sample publishes with history.
func (b *Broker) sample(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	_, err := b.Publish(ctx, name, &channel.Publication{Data: []byte("{}")},
		broker.PublishOptions{HistorySize: 1, HistoryTTL: sampleTTL, HistoryMetaTTL: sampleTTL})
	return err
}
