package clients

import (
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
)

// polls returns the shared polls of all namespaces of that type. They ask the policy that is in force.
func polls(cfg *config.SharedPoll, resolver *channels.Resolver, inForce func() *Policy) map[*channels.Options]*channel.SharedPoll {
	list := make(map[*channels.Options]*channel.SharedPoll)
	resolver.Each(func(of *channels.Options) {
		if of.Type != channels.SharedPoll {
			return
		}
		o := &of.SharedPoll
		gather := cfg.Notification.Gathering(o)
		list[of] = &channel.SharedPoll{
			Poll: func(ctx context.Context, ch string, keys []channel.PolledKey) (channel.PollAnswer, error) {
				return inForce().Backend.Poll(ctx, ch, keys)
			},
			Track:     func(_ context.Context, r *channel.TrackRequest) error { return inForce().track(r) },
			Versioned: o.Mode == "versioned", KeepLatest: o.KeepLatestData,
			Interval: o.RefreshInterval, MaxInterval: o.BackpressureMaxInterval, BatchSize: o.RefreshBatchSize,
			MaxKeys: o.MaxKeysPerConnection, Linger: o.ChannelShutdownDelay, KeyGrace: o.TrackExpiredExtraDelay,
			NotifyDelay: gather.BatchMaxDelay, NotifyBatch: gather.BatchMaxSize,
		}
	})
	return list
}

func (p *Policy) track(r *channel.TrackRequest) error {
	of, err := p.Channels.Named(r.Channel)
	switch {
	case err != nil:
		return err
	case of.Type != channels.SharedPoll:
		return refusal.Because(protocol.ErrorPermissionDenied, "subscription_type", "the channel is not a shared poll any more")
	case p.cfg.SharedPoll.HMACSecretKey == "":
		return refusal.Because(protocol.ErrorInternal, "shared_poll.hmac_secret_key", "there is no secret for signatures")
	}
	now := time.Now()
	for i := range r.Batches {
		b := &r.Batches[i]
		if b.ExpireAt, err = auth.VerifyTrack(&p.cfg.SharedPoll, b.Signature, r.User, r.Channel, b.Keys, now); err != nil {
			answer := protocol.ErrorPermissionDenied
			if errors.Is(err, auth.ErrExpired) {
				answer = protocol.ErrorTokenExpired
			}
			return refusal.Answer(answer, err)
		}
	}
	return nil
}
