package app

import (
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/namespace"
)

// connecting finds out who a client is: by its token, as anybody where that is allowed, or by
// the header that an authenticating proxy sets (auth.md 1).
func (s *snapshot) connecting(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	flags := &s.cfg.Client
	reply := gyro.ConnectReply{ClientSideRefresh: true}
	var err error
	switch {
	case e.Inline && s.connect.Costly(e.Token):
		return reply, gyro.ErrWouldBlock
	case e.Token != "":
		if err = s.byToken(e, &reply); err == nil {
			err = s.personal(ctx, &reply, e.Inline)
		}
	case flags.AllowAnonymousConnect || flags.Insecure:
		reply.Credentials = &gyro.Credentials{}
	default:
		// Without the header there is no identity, and the node refuses the client. The
		// header grants no subscriptions.
		if user := s.headerUser(e); user != "" {
			reply.Credentials = &gyro.Credentials{UserID: user}
		}
		return reply, nil
	}
	if err == nil {
		err = s.requested(e, &reply)
	}
	return reply, err
}

func (s *snapshot) headerUser(e gyro.ConnectEvent) string {
	name := s.cfg.Client.UserIDHTTPHeader
	if name == "" {
		return ""
	}
	return e.Transport.Header().Get(name)
}

// byToken verifies a connection token and takes over its claims (auth.md 6 and 7).
func (s *snapshot) byToken(e gyro.ConnectEvent, reply *gyro.ConnectReply) error {
	flags := &s.cfg.Client
	token, err := s.connect.VerifyConnect(e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return protocol.ErrorTokenExpired
	case err != nil:
		s.log.Info("connection token refused", "client", e.ClientID, "reason", err)
		return protocol.DisconnectInvalidToken
	case token.User == "" && flags.DisallowAnonymousTokens:
		return protocol.DisconnectPermissionDenied
	}
	reply.Credentials = &gyro.Credentials{UserID: token.User, Info: token.Info, Meta: token.Meta, ExpireAt: token.ExpireAt}
	if flags.Insecure {
		reply.Credentials.ExpireAt = time.Time{}
	}
	for name, sub := range token.Subs {
		ch, err := s.named(name, "client", e.ClientID)
		if err != nil {
			return err
		}
		o := subscribeOptions(ch, namespace.SourceConnectToken)
		o.ChanInfo, o.Data = sub.Info, sub.Data
		override(&o, sub.Override)
		subscribeTo(reply, name, o)
	}
	return nil
}

func subscribeTo(reply *gyro.ConnectReply, ch string, o gyro.SubscribeOptions) {
	if reply.Subscriptions == nil {
		reply.Subscriptions = make(map[string]gyro.SubscribeOptions)
	}
	reply.Subscriptions[ch] = o
}

// personal subscribes a user to the user's personal channel, and ends the user's other
// connections if only one is allowed (auth.md 14.2).
func (s *snapshot) personal(ctx context.Context, reply *gyro.ConnectReply, inline bool) error {
	own := &s.cfg.Client.UserPersonalChannel
	user := reply.Credentials.UserID
	if !own.Enabled || user == "" {
		return nil
	}
	name := s.channels.PersonalChannel(own.Namespace, user)
	ch, err := s.named(name, "user", user)
	if err != nil {
		return err
	}
	subscribeTo(reply, name, subscribeOptions(ch, namespace.SourcePersonalChannel))
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
		return s.node.Disconnect(ctx, gyro.Target{User: user}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectConnectionLimit})
	}
	return nil
}

// requested subscribes to the channels that the connect command asks for, where the rules
// grant it (channels.md 6.3).
func (s *snapshot) requested(e gyro.ConnectEvent, reply *gyro.ConnectReply) error {
	for name := range e.Subs {
		if _, ok := reply.Subscriptions[name]; ok {
			continue
		}
		ch, granted, err := s.channels.Requested(name, s.facts(reply.Credentials.UserID, false))
		if errors.Is(err, namespace.ErrTooLong) {
			s.tooLong(name, "client", e.ClientID)
			continue
		}
		if err != nil {
			return err
		}
		if granted {
			subscribeTo(reply, name, subscribeOptions(ch, namespace.SourceConnectRequest))
		}
	}
	return nil
}

// refresh prolongs a connection by a new token (auth.md 8.2).
func (s *snapshot) refresh(ctx context.Context, c *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
	token, err := s.connect.VerifyConnect(e.Token)
	if s.cfg.Client.Insecure {
		token.ExpireAt = time.Time{}
	}
	switch {
	case errors.Is(err, auth.ErrExpired):
		return gyro.RefreshReply{Expired: true}, nil
	case err != nil:
		s.log.Info("connection token refused on refresh", "client", c.ID(), "reason", err)
		return gyro.RefreshReply{}, protocol.DisconnectInvalidToken
	case token.User != c.UserID():
		s.log.Info("connection token of another user on refresh", "client", c.ID())
		return gyro.RefreshReply{}, protocol.DisconnectInvalidToken
	case !token.ExpireAt.IsZero() && !token.ExpireAt.After(time.Now()):
		return gyro.RefreshReply{}, protocol.ErrorExpired
	}
	if changed, err := s.subsChanged(ctx, c, token); err != nil {
		return gyro.RefreshReply{}, err
	} else if changed {
		return gyro.RefreshReply{}, protocol.DisconnectInsufficientState
	}
	reply := gyro.RefreshReply{ExpireAt: token.ExpireAt, Meta: token.Meta}
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
		if _, ok := token.Subs[ch]; !ok && sub.Source == uint8(namespace.SourceConnectToken) {
			return true, nil
		}
	}
	return false, nil
}

// subRefresh prolongs a subscription by a new token (auth.md 10). A subscription that the
// server API made cannot be prolonged: it ends when it expires (server-api.md 6.3).
func (s *snapshot) subRefresh(_ context.Context, c *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
	if !e.ClientSide {
		s.log.Info("subscription expired", "client", c.ID(), "channel", e.Channel)
		return gyro.SubRefreshReply{Expired: true}, nil
	}
	token, err := s.subscribe.VerifySubscribe(e.Token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		return gyro.SubRefreshReply{}, protocol.ErrorTokenExpired
	case err != nil:
		s.log.Info("subscription token refused on refresh", "client", c.ID(), "channel", e.Channel, "reason", err)
		return gyro.SubRefreshReply{}, protocol.DisconnectInvalidToken
	case !s.fits(c, e.Channel, token):
		return gyro.SubRefreshReply{}, protocol.DisconnectInvalidToken
	}
	return gyro.SubRefreshReply{ExpireAt: token.ExpireAt, Info: token.Info}, nil
}
