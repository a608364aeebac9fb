package app

import (
	"context"
	"errors"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/engine/userstatus"
	"github.com/gyrohq/gyro/server/internal/operators"
)

// facts returns what the rules of a channel ask about a connection.
func (s *snapshot) facts(user string, subscribed bool) channels.Facts {
	return channels.Facts{User: user, Subscribed: subscribed, Insecure: s.cfg.Client.Insecure}
}

// subscribing decides on a subscribe command.
func (s *snapshot) subscribing(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	if reply, watching, err := operators.Watches(c, s.channels, e.Channel); watching {
		return reply, err
	}
	ch, err := s.channels.ForClient(e.Channel)
	if err != nil {
		return gyro.SubscribeReply{}, err
	}
	reply, err := s.decide(ctx, c, ch, e)
	if ch.Type == channels.SharedPoll {
		reply.Options.Poll = s.polls[ch.Options]
	}
	return reply, err
}

func (s *snapshot) decide(ctx context.Context, c *gyro.Client, ch channels.Channel, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	facts := s.facts(c.UserID(), false)
	decision := ch.DecideSubscribe(facts, channels.SubscriptionType(e.Type), e.Token != "")
	if decision.Err != nil {
		return gyro.SubscribeReply{}, decision.Err
	}
	reply := gyro.SubscribeReply{Options: channels.Subscription(ch, decision.Source), ClientSideRefresh: !ch.SubRefreshProxyEnabled}
	switch decision.By {
	case channels.Rules:
	case channels.Token:
		if err := s.subscribeByToken(ctx, c, e, &reply.Options); err != nil {
			return gyro.SubscribeReply{}, err
		}
	case channels.SubscribeProxy:
		if e.Inline {
			return gyro.SubscribeReply{}, gyro.ErrWouldBlock
		}
		return s.backend.Subscribe(ctx, c, ch, e)
	case channels.StreamProxy:
		if e.Inline {
			return gyro.SubscribeReply{}, gyro.ErrWouldBlock
		}
		return s.backend.SubscribeStream(ctx, c, ch, e)
	}
	granted := ch.Grant(facts, channels.Wishes{
		Positioned: e.Positioned, Recoverable: e.Recoverable, JoinLeave: e.JoinLeave,
	})
	reply.Options.Positioned = reply.Options.Positioned || granted.Positioned
	reply.Options.Recoverable = reply.Options.Recoverable || granted.Recoverable
	reply.Options.PushJoinLeave = reply.Options.PushJoinLeave || granted.JoinLeave
	return reply, nil
}

// subscribeByToken verifies the token of a subscribe command and sets the options that the
// token grants.
func (s *snapshot) subscribeByToken(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent, o *gyro.SubscribeOptions) error {
	if e.Inline && s.subscribe.Costly(e.Token) {
		return gyro.ErrWouldBlock
	}
	token, err := s.subscribe.VerifySubscribe(ctx, e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return refusal.Answer(protocol.ErrorTokenExpired, err)
	case err != nil:
		return refusal.Answer(protocol.ErrorPermissionDenied, err)
	}
	if _, err := s.channels.Named(token.Channel); err != nil {
		return err
	}
	if err := token.Fits(e.Channel, c.UserID(), c.ID()); err != nil {
		return err
	}
	o.ExpireAt, o.ChanInfo, o.Data, o.Token = token.ExpireAt, token.Info, token.Data, token.ID
	o.Source = uint8(channels.SourceSubscribeToken)
	channels.Override(o, token.Override)
	return nil
}

func (s *snapshot) publishing(ctx context.Context, c *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
	ch, err := s.channels.ForClient(e.Channel)
	if err != nil {
		return gyro.PublishReply{}, err
	}
	decision := ch.DecidePublish(s.facts(c.UserID(), e.Subscribed), e.Data)
	if decision.Err != nil {
		return gyro.PublishReply{}, decision.Err
	}
	switch decision.By {
	case channels.Rules:
	case channels.PublishProxy:
		return s.backend.Publish(ctx, c, ch, e)
	case channels.StreamProxy:
		return s.backend.PublishToStream(e)
	}
	o := channels.Publication(ch)
	o.Delta = ch.DeltaPublish
	return gyro.PublishReply{Options: o}, nil
}

// changing decides on a command that changes a map.
func (s *snapshot) changing(ctx context.Context, c *gyro.Client, e gyro.MapChangeEvent) (reply gyro.MapChangeReply, err error) {
	ch, err := s.channels.ForClient(e.Channel)
	if err != nil {
		return reply, err
	}
	decision := ch.DecideMapChange(s.facts(c.UserID(), e.Subscribed), e.Removed, e.Data)
	if decision.Err != nil {
		return reply, decision.Err
	}
	if reply.Options, err = channels.ClientMapChange(ch.Options); err != nil {
		return reply, err
	}
	if decision.By != channels.Rules {
		return s.backend.ChangeMap(ctx, c, ch, e, reply)
	}
	reply.Key, err = ch.MapKey(e.Key, c.ID(), c.UserID())
	return reply, err
}

func (s *snapshot) presence(_ context.Context, c *gyro.Client, e gyro.PresenceEvent) (reply gyro.PresenceReply, err error) {
	return reply, s.permitPresence(c, e)
}

func (s *snapshot) presenceStats(_ context.Context, c *gyro.Client, e gyro.PresenceEvent) (reply gyro.PresenceStatsReply, err error) {
	return reply, s.permitPresence(c, e)
}

func (s *snapshot) permitPresence(c *gyro.Client, e gyro.PresenceEvent) error {
	ch, err := s.channels.ForClient(e.Channel)
	if err != nil {
		return err
	}
	return ch.CheckPresence(s.facts(c.UserID(), e.Subscribed))
}

func (s *snapshot) history(_ context.Context, c *gyro.Client, e gyro.HistoryEvent) (reply gyro.HistoryReply, err error) {
	ch, err := s.channels.ForClient(e.Channel)
	if err == nil {
		err = ch.CheckHistory(s.facts(c.UserID(), e.Subscribed))
	}
	return reply, err
}

// cacheEmpty lets the backend fill a stream that has no publication.
func (s *snapshot) cacheEmpty(ctx context.Context, e gyro.CacheEmptyEvent) (gyro.CacheEmptyReply, error) {
	ch, err := s.channels.Named(e.Channel)
	if err != nil || !ch.CacheEmptyProxyEnabled {
		return gyro.CacheEmptyReply{}, err
	}
	if e.Inline {
		return gyro.CacheEmptyReply{}, gyro.ErrWouldBlock
	}
	populated, err := s.backend.Populate(ctx, ch, e.Channel)
	return gyro.CacheEmptyReply{Populated: populated}, err
}

// call answers RPCs: those that are built in, and what the backend answers.
func (s *snapshot) call(ctx context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
	if s.status != nil && e.Method == userstatus.Method {
		return nil, s.status.Active(ctx, c.UserID())
	}
	ping, name, err := s.rpc.Decide(e.Method)
	if err != nil || ping {
		return nil, err
	}
	return s.backend.Call(ctx, c, name, e)
}
