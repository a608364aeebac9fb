package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/operators"
	"github.com/gyrohq/gyro/server/internal/proxy"
)

// connecting finds out who a client is: by its token, as anybody where that is allowed, or by
// the header that an authenticating proxy sets.
func (s *snapshot) connecting(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	if operators.Connects(ctx) {
		return operators.Connect(ctx, s.channels)
	}
	flags := &s.cfg.Client
	reply := gyro.ConnectReply{ClientSideRefresh: !s.backend.Decides(proxy.Refresh)}
	byProxy := e.Token == "" && s.backend.Decides(proxy.Connect)
	if e.Inline && (s.connect.Costly(e.Token) || byProxy) {
		return reply, gyro.ErrWouldBlock
	}
	from := s.backend.Keep(e, e.Transport.Name == uniGRPCName, &reply)
	var err error
	if byProxy {
		known, err := s.backend.Connect(ctx, e, from, &reply)
		if err == nil && known {
			err = s.personal(ctx, &reply, false)
		}
		if err != nil || known {
			return reply, err
		}
	}
	switch {
	case e.Token != "":
		if err = s.byToken(ctx, e, &reply); err == nil {
			err = s.personal(ctx, &reply, e.Inline)
		}
	case flags.AllowAnonymousConnect || flags.Insecure:
		reply.Credentials = &gyro.Credentials{}
	default:
		// The header grants nothing but the identity.
		user := s.headerUser(e)
		if user == "" && byProxy {
			return reply, errUnknownClient
		}
		if user == "" {
			return reply, errNoToken
		}
		reply.Credentials = &gyro.Credentials{UserID: user}
		return reply, nil
	}
	if err == nil {
		err = s.requested(e, &reply)
	}
	return reply, err
}

// What clients without an identity are refused for.
var (
	errNoToken = refusal.Because(protocol.DisconnectBadRequest, "client.allow_anonymous_connect_without_token",
		"the client sent no token, and client.allow_anonymous_connect_without_token is off")
	errUnknownClient = refusal.Because(protocol.DisconnectBadRequest, "client.proxy.connect",
		"the answer of the connect proxy has no result, so the client is not known")
	errAnonymousToken = refusal.Because(protocol.DisconnectPermissionDenied, "client.disallow_anonymous_connection_tokens",
		"the token names no user, and client.disallow_anonymous_connection_tokens is on")
)

// headerUser returns the user that an authenticating reverse proxy names. uni_grpc has a port of its own, which a reverse proxy
// of HTTP is not in front of, and so a name of its own.
func (s *snapshot) headerUser(e gyro.ConnectEvent) string {
	name := s.cfg.Client.UserIDHTTPHeader
	if e.Transport.Name == uniGRPCName {
		name = s.cfg.UniGRPC.UserIDMetadata
	}
	if name == "" {
		return ""
	}
	return e.Transport.Header().Get(name)
}

// byToken verifies a connection token and takes over its claims.
func (s *snapshot) byToken(ctx context.Context, e gyro.ConnectEvent, reply *gyro.ConnectReply) error {
	flags := &s.cfg.Client
	token, err := s.connect.VerifyConnect(ctx, e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return refusal.Answer(protocol.ErrorTokenExpired, err)
	case err != nil:
		return refusal.Answer(protocol.DisconnectInvalidToken, err)
	case token.User == "" && flags.DisallowAnonymousTokens:
		return errAnonymousToken
	case token.OtherUser != "":
		s.log.Warn("the client is anonymous: its token names the user in another claim than the expected one", "client", e.ClientID,
			"claim", token.OtherUser, "expected", cmp.Or(flags.Token.UserIDClaim, "sub"), "key", "client.token.user_id_claim")
	}
	reply.Credentials = &gyro.Credentials{UserID: token.User, Info: token.Info, Meta: token.Meta, ExpireAt: token.ExpireAt, Token: token.ID}
	reply.Labels = token.Labels
	if flags.Insecure {
		reply.Credentials.ExpireAt = time.Time{}
	}
	for name, sub := range token.Subs {
		ch, err := s.channels.Named(name)
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

// personal subscribes a user to the user's personal channel, and ends the user's other
// connections if only one is allowed.
func (s *snapshot) personal(ctx context.Context, reply *gyro.ConnectReply, inline bool) error {
	own := &s.cfg.Client.UserPersonalChannel
	user := reply.Credentials.UserID
	if !own.Enabled || user == "" {
		return nil
	}
	name := s.channels.PersonalChannel(own.Namespace, user)
	ch, err := s.channels.Named(name)
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
	stats, err := s.node.PresenceStats(ctx, name)
	if err != nil {
		s.log.Error("presence of a personal channel", "channel", name, "error", err)
		return protocol.DisconnectServerError
	}
	if stats.Clients > 0 {
		// The new connection is not registered yet, so this does not end it.
		return s.node.Users().Disconnect(ctx, gyro.Target{User: user}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectConnectionLimit})
	}
	return nil
}

// requested subscribes to the channels that the connect command asks for, where the rules
// grant it.
func (s *snapshot) requested(e gyro.ConnectEvent, reply *gyro.ConnectReply) error {
	for name := range e.Subs {
		if _, ok := reply.Subscriptions[name]; ok {
			continue
		}
		ch, ignored, err := s.channels.Requested(name, s.facts(reply.Credentials.UserID, false))
		if err != nil && e.Repeats(name) {
			ignored, err = err, nil // the namespace may have been there when the client got the position
		}
		if why := cmp.Or(err, ignored); why != nil {
			channels.Ignore(reply, name, why)
		} else {
			channels.Subscribe(reply, name, channels.Subscription(ch, channels.SourceConnectRequest))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refresh prolongs a connection by a new token.
func (s *snapshot) refresh(ctx context.Context, c *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
	if s.backend.Decides(proxy.Refresh) {
		if e.ClientSide {
			return gyro.RefreshReply{}, refusal.Because(protocol.DisconnectBadRequest, "client.proxy.refresh.enabled",
				"the refresh proxy prolongs connections, not their clients")
		}
		return s.backend.Refresh(ctx, c)
	}
	token, err := s.connect.VerifyConnect(ctx, e.Token)
	if s.cfg.Client.Insecure {
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
	if changed, err := s.subsChanged(ctx, c, token); err != nil {
		return gyro.RefreshReply{}, err
	} else if changed {
		return gyro.RefreshReply{}, refusal.Because(protocol.DisconnectInsufficientState, "",
			"the new token grants other server-side subscriptions: the client has to reconnect to get them")
	}
	reply := gyro.RefreshReply{ExpireAt: token.ExpireAt, Meta: token.Meta, Token: token.ID}
	if len(token.Info) > 0 {
		reply.Info = token.Info
	}
	return reply, nil
}

// subsChanged tells whether a new token grants other channels than the token that the client
// connected with. If so, the client has to reconnect to get them.
func (s *snapshot) subsChanged(ctx context.Context, c *gyro.Client, token auth.ConnectToken) (bool, error) {
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

// subRefresh prolongs a subscription by the proxy of its namespace, or by a new token. Without
// the proxy, a subscription that the server API made cannot be prolonged: it ends when it expires.
func (s *snapshot) subRefresh(ctx context.Context, c *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
	if ch, err := s.channels.Named(e.Channel); err == nil && ch.SubRefreshProxyEnabled {
		if e.ClientSide {
			return gyro.SubRefreshReply{}, refusal.Because(protocol.DisconnectBadRequest, "sub_refresh_proxy_enabled",
				"the sub refresh proxy prolongs subscriptions, not their clients")
		}
		return s.backend.SubRefresh(ctx, c, ch, e.Channel)
	}
	if !e.ClientSide {
		s.log.Info("subscription expired", "client", c.ID(), "channel", e.Channel)
		return gyro.SubRefreshReply{Expired: true}, nil
	}
	token, err := s.subscribe.VerifySubscribe(ctx, e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return gyro.SubRefreshReply{}, refusal.Answer(protocol.ErrorTokenExpired, err)
	case err != nil:
		return gyro.SubRefreshReply{}, refusal.Answer(protocol.DisconnectInvalidToken, err)
	}
	if err := token.Fits(e.Channel, c.UserID(), c.ID()); err != nil {
		return gyro.SubRefreshReply{}, err
	}
	return gyro.SubRefreshReply{ExpireAt: token.ExpireAt, Info: token.Info, Token: token.ID}, nil
}
