package clients

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/engine/userstatus"
	"github.com/gyrohq/gyro/server/internal/operators"
)

// uniGRPC is the transport whose clients have metadata instead of headers.
const uniGRPC = "uni_grpc"

// Policy decides about clients by one configuration. It never changes.
type Policy struct {
	Channels *channels.Resolver
	// Backend is completed by the owner before the policy is in force.
	Backend *Backend

	cfg     *config.Config
	rpc     *channels.RPC
	connect *auth.Verifier
	// subscribe is connect unless client.subscription_token is enabled.
	subscribe *auth.Verifier
	polls     map[*channels.Options]*channel.SharedPoll
	status    *userstatus.Manager
	node      *gyro.Node
	log       *slog.Logger
}

// Options of a Policy that are not in the configuration.
type Options struct {
	Node *gyro.Node
	// KeySets caches the keys of tokens.
	KeySets *jwks.Cache
	// PreviousKey, if set, is called for each token that the previous secret verifies.
	PreviousKey func()
	// Status, if set, keeps when users were active and online.
	Status *userstatus.Manager
	// InForce returns the policy that decides about shared polls.
	InForce func() *Policy
	Log     *slog.Logger
}

// NewPolicy returns the policy of a validated configuration, without proxies. Errors name the key.
func NewPolicy(cfg *config.Config, o Options) (*Policy, error) {
	p := &Policy{cfg: cfg, rpc: channels.NewRPC(cfg.RPC), status: o.Status, node: o.Node, log: o.Log}
	var err error
	if p.Channels, err = channels.NewResolver(cfg.Channel, cfg.Client.UserPersonalChannel); err != nil {
		return nil, err
	}
	p.Backend = &Backend{Channels: p.Channels, Log: o.Log, Grace: cfg.Client.RefreshProxyGrace}
	p.polls = polls(&cfg.SharedPoll, p.Channels, o.InForce)
	if p.connect, err = auth.NewVerifier(cfg.Client.Token, o.verifier(cfg, "client.token")); err != nil {
		return nil, fmt.Errorf("client.token.%w", err)
	}
	p.subscribe = p.connect
	if own := &cfg.Client.SubscriptionToken; own.Enabled {
		if p.subscribe, err = auth.NewVerifier(own.Token, o.verifier(cfg, "client.subscription_token")); err != nil {
			return nil, fmt.Errorf("client.subscription_token.%w", err)
		}
	}
	return p, nil
}

func (o *Options) verifier(cfg *config.Config, section string) auth.Options {
	return auth.Options{Section: section, JWKS: o.KeySets, SkipSignature: cfg.Client.SkipTokenSignature, Previous: o.PreviousKey}
}

// Prefetch begins to fetch the keys of tokens.
func (p *Policy) Prefetch() {
	p.connect.Prefetch()
	p.subscribe.Prefetch()
}

// Handlers returns handlers for events of clients. The policy in force when an event comes decides it.
func Handlers(inForce func() *Policy) gyro.Handlers {
	return gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			p := inForce()
			reply, err := p.connecting(ctx, e)
			if err == nil && reply.Credentials != nil {
				p.status.Connected(reply.Credentials.UserID)
			}
			return reply, err
		},
		Subscribe:     byPolicy(inForce, (*Policy).subscribing),
		Publish:       byPolicy(inForce, (*Policy).publishing),
		MapChange:     byPolicy(inForce, (*Policy).changing),
		Presence:      byPolicy(inForce, (*Policy).presence),
		PresenceStats: byPolicy(inForce, (*Policy).presenceStats),
		History:       byPolicy(inForce, (*Policy).history),
		CacheEmpty: func(ctx context.Context, e gyro.CacheEmptyEvent) (gyro.CacheEmptyReply, error) {
			return inForce().cacheEmpty(ctx, e)
		},
		RPC:        byPolicy(inForce, (*Policy).call),
		Refresh:    byPolicy(inForce, (*Policy).refresh),
		SubRefresh: byPolicy(inForce, (*Policy).subRefresh),
	}
}

func byPolicy[E, R any](
	inForce func() *Policy, method func(*Policy, context.Context, *gyro.Client, E) (R, error),
) func(context.Context, *gyro.Client, E) (R, error) {
	return func(ctx context.Context, c *gyro.Client, e E) (R, error) { return method(inForce(), ctx, c, e) }
}

func (p *Policy) facts(user string, subscribed bool, rights channel.Rights) channels.Facts {
	return channels.Facts{User: user, Subscribed: subscribed, Insecure: p.cfg.Client.Insecure, Rights: rights}
}

func (p *Policy) subscribing(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	if reply, watching, err := operators.Watches(c, p.Channels, e.Channel); watching {
		return reply, err
	}
	ch, err := p.Channels.ForClient(e.Channel)
	if err != nil {
		return gyro.SubscribeReply{}, err
	}
	reply, err := p.decide(ctx, c, ch, e)
	if ch.Type == channels.SharedPoll {
		reply.Options.Poll = p.polls[ch.Options]
	}
	return reply, err
}

func (p *Policy) decide(ctx context.Context, c *gyro.Client, ch channels.Channel, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	facts := p.facts(c.UserID(), false, e.Rights)
	decision := ch.DecideSubscribe(facts, channels.SubscriptionType(e.Type), e.Token != "")
	if decision.Err != nil {
		return gyro.SubscribeReply{}, decision.Err
	}
	reply := gyro.SubscribeReply{Options: channels.Subscription(ch, decision.Source), ClientSideRefresh: !ch.SubRefreshProxyEnabled}
	var err error
	switch decision.By {
	case channels.Rules:
	case channels.Token:
		err = p.subscribeByToken(ctx, c, e, &reply.Options)
	case channels.SubscribeProxy:
		if e.Inline {
			return gyro.SubscribeReply{}, gyro.ErrWouldBlock
		}
		reply, err = p.Backend.Subscribe(ctx, c, ch, e)
	case channels.StreamProxy:
		if e.Inline {
			return gyro.SubscribeReply{}, gyro.ErrWouldBlock
		}
		reply, err = p.Backend.SubscribeStream(ctx, c, ch, e)
	}
	if err != nil {
		return reply, err
	}
	if decision.Source == channels.SourceCapability {
		reply.Options.Needs = channel.RightSubscribe
	}
	wishes := channels.Wishes{Positioned: e.Positioned, Recoverable: e.Recoverable, JoinLeave: e.JoinLeave}
	channels.Wish(&reply.Options, ch, facts, wishes, decision.By == channels.Rules || decision.By == channels.Token)
	return reply, nil
}

// subscribeByToken sets the options that the token of a subscribe command grants.
func (p *Policy) subscribeByToken(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent, o *gyro.SubscribeOptions) error {
	if e.Inline && p.subscribe.Costly(e.Token) {
		return gyro.ErrWouldBlock
	}
	token, err := p.subscribe.VerifySubscribe(ctx, e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return refusal.Answer(protocol.ErrorTokenExpired, err)
	case err != nil:
		return refusal.Answer(protocol.ErrorPermissionDenied, err)
	}
	if _, err := p.Channels.Named(token.Channel); err != nil {
		return err
	}
	if err := token.Fits(e.Channel, c.UserID(), c.ID()); err != nil {
		return err
	}
	o.ExpireAt, o.ChanInfo, o.Data, o.Token, o.Rights = token.ExpireAt, token.Info, token.Data, token.ID, token.Rights
	o.Source = uint8(channels.SourceSubscribeToken)
	channels.Override(o, token.Override)
	return nil
}

func (p *Policy) publishing(ctx context.Context, c *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
	ch, err := p.Channels.ForClient(e.Channel)
	if err != nil {
		return gyro.PublishReply{}, err
	}
	decision := ch.DecidePublish(p.facts(c.UserID(), e.Subscribed, e.Rights), e.Data)
	if decision.Err != nil {
		return gyro.PublishReply{}, decision.Err
	}
	switch decision.By {
	case channels.Rules:
	case channels.PublishProxy:
		return p.Backend.Publish(ctx, c, ch, e)
	case channels.StreamProxy:
		return p.Backend.PublishToStream(e)
	}
	o := channels.Publication(ch)
	o.Delta = ch.DeltaPublish
	return gyro.PublishReply{Options: o}, nil
}

func (p *Policy) changing(ctx context.Context, c *gyro.Client, e gyro.MapChangeEvent) (reply gyro.MapChangeReply, err error) {
	ch, err := p.Channels.ForClient(e.Channel)
	if err != nil {
		return reply, err
	}
	decision := ch.DecideMapChange(p.facts(c.UserID(), e.Subscribed, e.Rights), e.Removed, e.Data)
	if decision.Err != nil {
		return reply, decision.Err
	}
	if reply.Options, err = channels.ClientMapChange(ch.Options); err != nil {
		return reply, err
	}
	if decision.By != channels.Rules {
		return p.Backend.ChangeMap(ctx, c, ch, e, reply)
	}
	reply.Key, err = ch.MapKey(e.Key, c.ID(), c.UserID())
	return reply, err
}

func (p *Policy) presence(_ context.Context, c *gyro.Client, e gyro.PresenceEvent) (reply gyro.PresenceReply, err error) {
	return reply, p.permitPresence(c, e)
}

func (p *Policy) presenceStats(_ context.Context, c *gyro.Client, e gyro.PresenceEvent) (reply gyro.PresenceStatsReply, err error) {
	return reply, p.permitPresence(c, e)
}

func (p *Policy) permitPresence(c *gyro.Client, e gyro.PresenceEvent) error {
	ch, err := p.Channels.ForClient(e.Channel)
	if err != nil {
		return err
	}
	return ch.CheckPresence(p.facts(c.UserID(), e.Subscribed, e.Rights))
}

func (p *Policy) history(_ context.Context, c *gyro.Client, e gyro.HistoryEvent) (reply gyro.HistoryReply, err error) {
	ch, err := p.Channels.ForClient(e.Channel)
	if err == nil {
		err = ch.CheckHistory(p.facts(c.UserID(), e.Subscribed, e.Rights))
	}
	return reply, err
}

func (p *Policy) cacheEmpty(ctx context.Context, e gyro.CacheEmptyEvent) (gyro.CacheEmptyReply, error) {
	ch, err := p.Channels.Named(e.Channel)
	if err != nil || !ch.CacheEmptyProxyEnabled {
		return gyro.CacheEmptyReply{}, err
	}
	if e.Inline {
		return gyro.CacheEmptyReply{}, gyro.ErrWouldBlock
	}
	populated, err := p.Backend.Populate(ctx, ch, e.Channel)
	return gyro.CacheEmptyReply{Populated: populated}, err
}

func (p *Policy) call(ctx context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
	if p.status != nil && e.Method == userstatus.Method {
		return nil, p.status.Active(ctx, c.UserID())
	}
	ping, name, err := p.rpc.Decide(e.Method)
	if err != nil || ping {
		return nil, err
	}
	return p.Backend.Call(ctx, c, name, e)
}
