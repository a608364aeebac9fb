package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/namespace"
	"github.com/gyrohq/gyro/server/origin"
)

// policy answers the node's questions about clients by the configuration.
type policy struct {
	node     *gyro.Node
	log      *slog.Logger
	channels *namespace.Resolver
	rpc      atomic.Pointer[namespace.RPC]
	connect  *auth.Verifier
	// subscribe is connect's unless subscription tokens have a section of their own.
	subscribe    *auth.Verifier
	origins      origins
	userIDHeader string
	maxLength    int // of channels
	// flags of the section client that are read per operation.
	flags atomic.Pointer[config.Client]
}

func newPolicy(cfg *config.Config, log *slog.Logger) (*policy, error) {
	p := &policy{log: log, userIDHeader: cfg.Client.UserIDHTTPHeader, maxLength: cfg.Channel.MaxLength}
	var err error
	if p.channels, err = namespace.NewResolver(cfg.Channel); err != nil {
		return nil, err
	}
	if p.connect, err = auth.NewVerifier(cfg.Client.Token, authOptions(cfg)); err != nil {
		return nil, fmt.Errorf("client.token.%w", err)
	}
	p.subscribe = p.connect
	if own := &cfg.Client.SubscriptionToken; own.Enabled {
		if p.subscribe, err = auth.NewVerifier(own.Token, authOptions(cfg)); err != nil {
			return nil, fmt.Errorf("client.subscription_token.%w", err)
		}
	}
	m, err := origin.New(cfg.Client.AllowedOrigins)
	if err != nil {
		return nil, fmt.Errorf("client.allowed_origins: %w", err)
	}
	p.origins = origins{m}
	p.rpc.Store(namespace.NewRPC(cfg.RPC))
	p.flags.Store(&cfg.Client)
	return p, nil
}

func authOptions(cfg *config.Config) auth.Options {
	return auth.Options{SkipSignature: cfg.Client.SkipTokenSignature}
}

// reload takes over what config.md 3.4 lists, or nothing if any of it is wrong.
func (p *policy) reload(to *config.Config) error {
	cfg := *to
	// What cannot change stays as it was at start.
	cfg.Client.SubscriptionToken.Enabled = p.subscribe != p.connect
	cfg.Channel.MaxLength = p.maxLength
	if _, err := newPolicy(&cfg, p.log); err != nil {
		return err
	}
	err := errors.Join(
		p.channels.Reload(cfg.Channel),
		p.connect.Reload(cfg.Client.Token, authOptions(&cfg)),
	)
	if p.subscribe != p.connect {
		err = errors.Join(err, p.subscribe.Reload(cfg.Client.SubscriptionToken.Token, authOptions(&cfg)))
	}
	p.rpc.Store(namespace.NewRPC(cfg.RPC))
	p.flags.Store(&cfg.Client)
	return err
}

func (p *policy) handlers() gyro.Handlers {
	return gyro.Handlers{
		Connecting:    p.connecting,
		Subscribe:     p.subscribing,
		Publish:       p.publishing,
		Presence:      p.presence,
		PresenceStats: p.presence,
		History:       p.history,
		RPC:           p.call,
		Refresh:       p.refresh,
		SubRefresh:    p.subRefresh,
	}
}

// facts about a connection that does something with a channel.
func (p *policy) facts(user string, subscribed bool) namespace.Facts {
	return namespace.Facts{User: user, Subscribed: subscribed, Insecure: p.flags.Load().Insecure}
}

// subscribeOptions are those of the namespace.
func subscribeOptions(ch namespace.Channel, source namespace.Source) gyro.SubscribeOptions {
	o := gyro.SubscribeOptions{
		Presence:        ch.Presence,
		EmitJoinLeave:   ch.JoinLeave,
		PushJoinLeave:   ch.ForcePushJoinLeave,
		Recoverable:     ch.ForceRecovery,
		Positioned:      ch.ForcePositioning,
		AutoRecover:     ch.AutoCacheRecover,
		HistoryMetaTTL:  ch.HistoryMetaTTL,
		AllowDelta:      len(ch.AllowedDeltaTypes) > 0,
		AllowTagsFilter: ch.AllowTagsFilter,
		BatchMaxDelay:   ch.BatchMaxDelay,
		BatchMaxSize:    ch.BatchMaxSize,
		Source:          uint8(source),
	}
	if ch.ForceRecoveryMode == "cache" {
		o.RecoveryMode = channel.RecoverCache
	}
	return o
}

// override applies what a token says instead of the namespace.
func override(o *gyro.SubscribeOptions, by auth.Override) {
	for _, f := range []struct {
		option *bool
		value  *bool
	}{
		{&o.Presence, by.Presence},
		{&o.EmitJoinLeave, by.JoinLeave},
		{&o.PushJoinLeave, by.ForcePushJoinLeave},
		{&o.Recoverable, by.ForceRecovery},
		{&o.Positioned, by.ForcePositioning},
	} {
		if f.value != nil {
			*f.option = *f.value
		}
	}
}

// subscribing is the decision table of channels.md 6.2.
func (p *policy) subscribing(_ context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	ch, err := p.channels.ForClient(e.Channel)
	if err != nil {
		return gyro.SubscribeReply{}, err
	}
	facts := p.facts(c.UserID(), false)
	verdict := ch.DecideSubscribe(facts, namespace.SubscriptionType(e.Type), e.Token != "")
	if verdict.Err != nil {
		return gyro.SubscribeReply{}, verdict.Err
	}
	reply := gyro.SubscribeReply{Options: subscribeOptions(ch, verdict.Source), ClientSideRefresh: true}
	switch verdict.By {
	case namespace.Rules:
	case namespace.Token:
		if err := p.subscribeByToken(c, e, &reply.Options); err != nil {
			return gyro.SubscribeReply{}, err
		}
	default: // proxies, which the configuration cannot switch on yet
		return gyro.SubscribeReply{}, protocol.ErrorNotAvailable
	}
	granted := ch.Grant(facts, namespace.Wishes{
		Positioned: e.Positioned, Recoverable: e.Recoverable, JoinLeave: e.JoinLeave,
	})
	reply.Options.Positioned = reply.Options.Positioned || granted.Positioned
	reply.Options.Recoverable = reply.Options.Recoverable || granted.Recoverable
	reply.Options.PushJoinLeave = reply.Options.PushJoinLeave || granted.JoinLeave
	return reply, nil
}

// subscribeByToken is the table of auth.md section 9.
func (p *policy) subscribeByToken(c *gyro.Client, e gyro.SubscribeEvent, o *gyro.SubscribeOptions) error {
	if e.Inline && p.subscribe.Costly(e.Token) {
		return gyro.ErrWouldBlock
	}
	token, err := p.subscribe.VerifySubscribe(e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return protocol.ErrorTokenExpired
	case err != nil:
		p.log.Info("subscription token refused", "client", c.ID(), "channel", e.Channel, "reason", err)
		return protocol.ErrorPermissionDenied
	}
	if _, err := p.named(token.Channel, "client", c.ID()); err != nil {
		return err
	}
	if !p.fits(c, e.Channel, token) {
		return protocol.DisconnectInvalidToken
	}
	o.ExpireAt, o.ChanInfo, o.Data = token.ExpireAt, token.Info, token.Data
	o.Source = uint8(namespace.SourceSubscribeToken)
	override(o, token.Override)
	return nil
}

// fits tells whether a token was made for this client and channel.
func (p *policy) fits(c *gyro.Client, ch string, t auth.SubscribeToken) bool {
	ok := t.Channel == ch && t.User == c.UserID() && (t.Client == "" || t.Client == c.ID())
	if !ok {
		p.log.Info("subscription token is for another channel, user or client", "client", c.ID(), "channel", ch)
	}
	return ok
}

func (p *policy) publishing(_ context.Context, c *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
	ch, err := p.channels.ForClient(e.Channel)
	if err != nil {
		return gyro.PublishReply{}, err
	}
	verdict := ch.DecidePublish(p.facts(c.UserID(), e.Subscribed), e.Data)
	if verdict.Err != nil {
		return gyro.PublishReply{}, verdict.Err
	}
	if verdict.By != namespace.Rules {
		return gyro.PublishReply{}, protocol.ErrorNotAvailable
	}
	return gyro.PublishReply{Options: gyro.PublishOptions{
		HistorySize: ch.HistorySize, HistoryTTL: ch.HistoryTTL, HistoryMetaTTL: ch.HistoryMetaTTL,
		Delta: ch.DeltaPublish,
	}}, nil
}

func (p *policy) presence(_ context.Context, c *gyro.Client, e gyro.PresenceEvent) error {
	ch, err := p.channels.ForClient(e.Channel)
	if err != nil {
		return err
	}
	return ch.CheckPresence(p.facts(c.UserID(), e.Subscribed))
}

func (p *policy) history(_ context.Context, c *gyro.Client, e gyro.HistoryEvent) error {
	ch, err := p.channels.ForClient(e.Channel)
	if err != nil {
		return err
	}
	return ch.CheckHistory(p.facts(c.UserID(), e.Subscribed))
}

// call answers RPCs: so far the built-in ping alone (channels.md section 9).
func (p *policy) call(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
	ping, _, err := p.rpc.Load().Decide(e.Method)
	if err == nil && !ping {
		err = protocol.ErrorNotAvailable
	}
	return nil, err
}

// named resolves a name that something else than a command of a client gives; who tells
// the log of it.
func (p *policy) named(name string, who ...any) (namespace.Channel, error) {
	ch, err := p.channels.Named(name)
	if err != nil {
		p.notNamed(name, err, who...)
	}
	return ch, err
}

// notNamed tells the log of a name that was refused for its length.
func (p *policy) notNamed(name string, err error, who ...any) {
	if errors.Is(err, namespace.ErrTooLong) {
		p.tooLong(name, who...)
	}
}

func (p *policy) tooLong(name string, who ...any) {
	p.log.Info("channel refused: its name is longer than channel.max_length", append(who,
		"channel", strings.ToValidUTF8(name[:p.maxLength], ""), "length", len(name), "channel.max_length", p.maxLength)...)
}

// ChannelOptions is what the server API needs to know of a channel.
func (p *policy) ChannelOptions(name string) (api.ChannelOptions, error) {
	ch, err := p.channels.Named(name)
	if err != nil {
		p.notNamed(name, err)
		return api.ChannelOptions{}, err
	}
	return api.ChannelOptions{
		SubscriptionType:      ch.SubscriptionType,
		HistorySize:           ch.HistorySize,
		HistoryTTL:            ch.HistoryTTL,
		HistoryMetaTTL:        ch.HistoryMetaTTL,
		Presence:              ch.Presence,
		JoinLeave:             ch.JoinLeave,
		ForcePushJoinLeave:    ch.ForcePushJoinLeave,
		ForceRecovery:         ch.ForceRecovery,
		ForcePositioning:      ch.ForcePositioning,
		BatchMaxDelay:         ch.BatchMaxDelay,
		BatchMaxSize:          ch.BatchMaxSize,
		DeltaPublish:          ch.DeltaPublish,
		PublicationDataFormat: ch.PublicationDataFormat,
		SharedPollPublish:     ch.SharedPoll.PublishEnabled,
	}, nil
}
