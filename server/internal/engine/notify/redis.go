package notify

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/server/internal/services"
)

type redisSource struct {
	shard      redis.Shard
	addressKey string // the option with the address
	client     rueidis.Client
	stop       context.CancelFunc
	ended      sync.WaitGroup
}

var errSilent = errors.New("Redis does not answer to SUBSCRIBE")

func (s *redisSource) start(ctx context.Context, r *Receiver) (err error) {
	if s.client, err = services.Redis(ctx, &s.shard, s.addressKey); err != nil {
		return underneath("redis", err)
	}
	var running context.Context
	running, s.stop = context.WithCancel(context.Background())
	first := make(chan error, 1) // the outcome of the first subscription
	s.ended.Go(func() { s.run(running, r, first) })
	select {
	case err = <-first:
	case <-ctx.Done():
		err = errSilent
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "NOPERM"):
		return services.Blame("channel", err)
	}
	return services.Blame("redis."+s.addressKey, err)
}

func (s *redisSource) run(ctx context.Context, r *Receiver, first chan<- error) {
	began := false
	subscribed := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) {
		if !began {
			began = true
			first <- nil
			return
		}
		r.back()
	})
	for ctx.Err() == nil {
		err := s.client.Receive(subscribed, s.client.B().Subscribe().Channel(r.name).Build(), func(m rueidis.PubSubMessage) {
			r.take([]byte(m.Message))
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errEnded
		}
		if !began {
			first <- err
			return
		}
		services.Sleep(ctx, services.Backoff(r.lost(err)))
	}
}

var errEnded = errors.New("the server has ended the subscription")

func (s *redisSource) close() {
	if s.stop != nil {
		s.stop()
	}
	if s.client != nil {
		s.client.Close()
	}
	s.ended.Wait()
}

func underneath(source string, err error) error {
	if e, ok := errors.AsType[*services.OptionError](err); ok {
		return &services.OptionError{Option: source + "." + e.Option, Err: e.Err}
	}
	return err
}
