package clients

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/operators"
	"github.com/gyrohq/gyro/server/internal/proxy"
)

// connecting identifies a client: by its token, as the anonymous user, or by the header of an authenticating proxy.
func (p *Policy) connecting(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	if operators.Connects(ctx) {
		return operators.Connect(ctx, p.Channels)
	}
	flags := &p.cfg.Client
	reply := gyro.ConnectReply{ClientSideRefresh: !p.Backend.Decides(proxy.Refresh)}
	byProxy := e.Token == "" && p.Backend.Decides(proxy.Connect)
	if e.Inline && (p.connect.Costly(e.Token) || byProxy) {
		return reply, gyro.ErrWouldBlock
	}
	from := p.Backend.Keep(e, e.Transport.Name == uniGRPC, &reply)
	var err error
	if byProxy {
		known, err := p.Backend.Connect(ctx, e, from, &reply)
		if err == nil && known {
			err = p.personal(ctx, &reply, false)
		}
		if err != nil || known {
			return reply, err
		}
	}
	switch {
	case e.Token != "":
		if err = p.byToken(ctx, e, &reply); err == nil {
			err = p.personal(ctx, &reply, e.Inline)
		}
	case flags.AllowAnonymousConnect || flags.Insecure:
		reply.Credentials = &gyro.Credentials{}
	default:
		user := p.headerUser(e)
		if user == "" && byProxy {
			return reply, ErrUnknownClient
		}
		if user == "" {
			return reply, ErrNoToken
		}
		reply.Credentials = &gyro.Credentials{UserID: user}
		return reply, nil
	}
	if err == nil {
		err = p.requested(e, &reply)
	}
	return reply, err
}

var (
	ErrNoToken = refusal.Because(protocol.DisconnectBadRequest, "client.allow_anonymous_connect_without_token",
		"the client sent no token, and client.allow_anonymous_connect_without_token is off")
	ErrUnknownClient = refusal.Because(protocol.DisconnectBadRequest, "client.proxy.connect",
		"the answer of the connect proxy has no result, so the client is not known")
	ErrAnonymousToken = refusal.Because(protocol.DisconnectPermissionDenied, "client.disallow_anonymous_connection_tokens",
		"the token names no user, and client.disallow_anonymous_connection_tokens is on")
)

// headerUser returns the user that an authenticating reverse proxy names. uni_grpc has a port of its own, behind another
// proxy, and so a key of its own.
func (p *Policy) headerUser(e gyro.ConnectEvent) string {
	name := p.cfg.Client.UserIDHTTPHeader
	if e.Transport.Name == uniGRPC {
		name = p.cfg.UniGRPC.UserIDMetadata
	}
	if name == "" {
		return ""
	}
	return e.Transport.Header().Get(name)
}

func (p *Policy) byToken(ctx context.Context, e gyro.ConnectEvent, reply *gyro.ConnectReply) error {
	flags := &p.cfg.Client
	token, err := p.connect.VerifyConnect(ctx, e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return refusal.Answer(protocol.ErrorTokenExpired, err)
	case err != nil:
		return refusal.Answer(protocol.DisconnectInvalidToken, err)
	case token.User == "" && flags.DisallowAnonymousTokens:
		return ErrAnonymousToken
	case token.OtherUser != "":
		p.log.Warn("the client is anonymous: its token names the user in another claim than the expected one", "client", e.ClientID,
			"claim", token.OtherUser, "expected", cmp.Or(flags.Token.UserIDClaim, "sub"), "key", "client.token.user_id_claim")
	}
	reply.Credentials = &gyro.Credentials{UserID: token.User, Info: token.Info, Meta: token.Meta, ExpireAt: token.ExpireAt, Token: token.ID, Capabilities: token.Capabilities}
	reply.Labels = token.Labels
	if flags.Insecure {
		reply.Credentials.ExpireAt = time.Time{}
	}
	for name, sub := range token.Subs {
		ch, err := p.Channels.Named(name)
		if err != nil {
			return err
		}
		o := channels.Subscription(ch, channels.SourceConnectToken)
		o.ChanInfo, o.Data = sub.Info, sub.Data
		channels.Override(&o, sub.Override)
		channels.Subscribe(reply, name, o)
	}
	return nil
}

// personal subscribes a user to its personal channel, and ends the user's other connections if only one is allowed.
func (p *Policy) personal(ctx context.Context, reply *gyro.ConnectReply, inline bool) error {
	own := &p.cfg.Client.UserPersonalChannel
	user := reply.Credentials.UserID
	if !own.Enabled || user == "" {
		return nil
	}
	name := p.Channels.PersonalChannel(own.Namespace, user)
	ch, err := p.Channels.Named(name)
	if err != nil {
		return err
	}
	channels.Subscribe(reply, name, channels.Subscription(ch, channels.SourcePersonalChannel))
	if !own.SingleConnection {
		return nil
	}
	if inline {
		return gyro.ErrWouldBlock
	}
	stats, err := p.node.PresenceStats(ctx, name)
	if err != nil {
		p.log.Error("presence of a personal channel", "channel", name, "error", err)
		return protocol.DisconnectServerError
	}
	if stats.Clients > 0 {
		// The new connection is not registered yet, so this does not end it.
		return p.node.Users().Disconnect(ctx, gyro.Target{User: user}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectConnectionLimit})
	}
	return nil
}

// requested subscribes to the channels of the connect command that the rules grant.
func (p *Policy) requested(e gyro.ConnectEvent, reply *gyro.ConnectReply) error {
	for name := range e.Subs {
		if _, ok := reply.Subscriptions[name]; ok {
			continue
		}
		facts := p.facts(reply.Credentials.UserID, false, reply.Credentials.Capabilities.On(name))
		ch, ignored, err := p.Channels.Requested(name, facts)
		if err != nil && e.Repeats(name) {
			ignored, err = err, nil // the namespace may have been there when the client got the position
		}
		if why := cmp.Or(err, ignored); why != nil {
			channels.Ignore(reply, name, why)
		} else {
			o := channels.Subscription(ch, channels.SourceConnectRequest)
			o.Needs = p.Channels.Owes(name, facts)
			channels.Subscribe(reply, name, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) refresh(ctx context.Context, c *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
	if p.Backend.Decides(proxy.Refresh) {
		if e.ClientSide {
			return gyro.RefreshReply{}, refusal.Because(protocol.DisconnectBadRequest, "client.proxy.refresh.enabled",
				"the refresh proxy prolongs connections, not their clients")
		}
		return p.Backend.Refresh(ctx, c)
	}
	token, err := p.connect.VerifyConnect(ctx, e.Token)
	if p.cfg.Client.Insecure {
		token.ExpireAt = time.Time{}
	}
	switch {
	case errors.Is(err, auth.ErrExpired):
		return gyro.RefreshReply{}, refusal.Answer(protocol.DisconnectExpired, err)
	case err != nil:
		return gyro.RefreshReply{}, refusal.Answer(protocol.DisconnectInvalidToken, err)
	case token.User != c.UserID():
		return gyro.RefreshReply{}, refusal.Because(protocol.DisconnectInvalidToken, "", "the token is of another user than the connection")
	case !token.ExpireAt.IsZero() && !token.ExpireAt.After(time.Now()):
		return gyro.RefreshReply{}, refusal.Because(protocol.ErrorExpired, "", "claim expire_at is past")
	}
	if changed, err := p.subsChanged(ctx, c, token); err != nil {
		return gyro.RefreshReply{}, err
	} else if changed {
		return gyro.RefreshReply{}, refusal.Because(protocol.DisconnectInsufficientState, "",
			"the new token grants other server-side subscriptions: the client has to reconnect to get them")
	}
	reply := gyro.RefreshReply{ExpireAt: token.ExpireAt, Meta: token.Meta, Token: token.ID, Capabilities: replaced(c, token.Capabilities)}
	if len(token.Info) > 0 {
		reply.Info = token.Info
	}
	return reply, nil
}

// subsChanged tells whether a new token grants other channels than the token of the connect.
func (p *Policy) subsChanged(ctx context.Context, c *gyro.Client, token auth.ConnectToken) (bool, error) {
	has, err := c.Subscriptions(ctx)
	if err != nil {
		return false, err
	}
	for ch := range token.Subs {
		if _, ok := has[ch]; !ok {
			return true, nil
		}
	}
	for ch, sub := range has {
		if _, ok := token.Subs[ch]; !ok && sub.Source == uint8(channels.SourceConnectToken) {
			return true, nil
		}
	}
	return false, nil
}

// subRefresh prolongs a subscription by the proxy of its namespace, or by a new token. Without the proxy, a subscription
// of the server API cannot be prolonged.
func (p *Policy) subRefresh(ctx context.Context, c *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
	if ch, err := p.Channels.Named(e.Channel); err == nil && ch.SubRefreshProxyEnabled {
		if e.ClientSide {
			return gyro.SubRefreshReply{}, refusal.Because(protocol.DisconnectBadRequest, "sub_refresh_proxy_enabled",
				"the sub refresh proxy prolongs subscriptions, not their clients")
		}
		return p.Backend.SubRefresh(ctx, c, ch, e.Channel)
	}
	if !e.ClientSide {
		p.log.Info("subscription expired", "client", c.ID(), "channel", e.Channel)
		return gyro.SubRefreshReply{Expired: true}, nil
	}
	token, err := p.subscribe.VerifySubscribe(ctx, e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return gyro.SubRefreshReply{}, refusal.Answer(protocol.ErrorTokenExpired, err)
	case err != nil:
		return gyro.SubRefreshReply{}, refusal.Answer(protocol.DisconnectInvalidToken, err)
	}
	if err := token.Fits(e.Channel, c.UserID(), c.ID()); err != nil {
		return gyro.SubRefreshReply{}, err
	}
	return gyro.SubRefreshReply{ExpireAt: token.ExpireAt, Info: token.Info, Token: token.ID, Rights: &token.Rights}, nil
}

var noCapabilities = new(channel.Capabilities)

// replaced are the capabilities of a client after a refresh: the new ones alone.
func replaced(c *gyro.Client, by *channel.Capabilities) *channel.Capabilities {
	if by == nil && c.Capabilities() != nil {
		return noCapabilities
	}
	return by
}
