package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/engine/notify"
)

// polls are the shared polls of the namespaces that have the type. What they ask and decide is up to the snapshot
// that is in force then.
func polls(cfg *config.SharedPoll, resolver *channels.Resolver, inForce *atomic.Pointer[snapshot]) map[*channels.Options]*channel.SharedPoll {
	list := make(map[*channels.Options]*channel.SharedPoll)
	resolver.Each(func(of *channels.Options) {
		if of.Type != channels.SharedPoll {
			return
		}
		o := &of.SharedPoll
		gather := cfg.Notification.Gathering(o)
		list[of] = &channel.SharedPoll{
			Poll: func(ctx context.Context, ch string, keys []channel.PolledKey) (channel.PollAnswer, error) {
				return inForce.Load().backend.Poll(ctx, ch, keys)
			},
			Track:     func(_ context.Context, r *channel.TrackRequest) error { return inForce.Load().track(r) },
			Versioned: o.Mode == "versioned", KeepLatest: o.KeepLatestData,
			Interval: o.RefreshInterval, MaxInterval: o.BackpressureMaxInterval, BatchSize: o.RefreshBatchSize,
			MaxKeys: o.MaxKeysPerConnection, Linger: o.ChannelShutdownDelay, KeyGrace: o.TrackExpiredExtraDelay,
			NotifyDelay: gather.BatchMaxDelay, NotifyBatch: gather.BatchMaxSize,
		}
	})
	return list
}

// newNotifications makes the receiver of notifications; nil if there are none.
func (a *App) newNotifications() (*notify.Receiver, error) {
	return notify.New(a.cfg, notify.Config{Notify: a.node.Polls().Notify, Observe: a.meters.notified, Logger: a.log})
}

// track verifies the signatures with which a client wants to track keys.
func (s *snapshot) track(r *channel.TrackRequest) error {
	of, err := s.channels.Named(r.Channel)
	switch {
	case err != nil:
		return err
	case of.Type != channels.SharedPoll:
		return refusal.Because(protocol.ErrorPermissionDenied, "subscription_type", "the channel is not a shared poll any more")
	case s.cfg.SharedPoll.HMACSecretKey == "":
		return refusal.Because(protocol.ErrorInternal, "shared_poll.hmac_secret_key", "there is no secret for signatures")
	}
	now := time.Now()
	for i := range r.Batches {
		b := &r.Batches[i]
		if b.ExpireAt, err = auth.VerifyTrack(&s.cfg.SharedPoll, b.Signature, r.User, r.Channel, b.Keys, now); err != nil {
			answer := protocol.ErrorPermissionDenied
			if errors.Is(err, auth.ErrExpired) {
				answer = protocol.ErrorTokenExpired
			}
			return refusal.Answer(answer, err)
		}
	}
	return nil
}
