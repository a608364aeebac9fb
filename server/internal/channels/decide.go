package channels

import (
	"errors"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/refusal"
)

// Authority is the instance that decides on an operation.
type Authority uint8

const (
	// Rules: the answer is Decision.Err.
	Rules Authority = iota
	// Token: only the subscription token decides.
	Token
	// SubscribeProxy, PublishProxy, StreamProxy and the map proxies: the backend decides. If the proxy is not
	// configured, the answer is protocol.ErrorNotAvailable.
	SubscribeProxy
	PublishProxy
	StreamProxy
	MapPublishProxy
	MapRemoveProxy
)

// Source is where a subscription comes from.
type Source uint8

// Sources of subscriptions.
const (
	SourceUnknown         Source = 0
	SourceConnectToken    Source = 1
	SourceConnectProxy    Source = 2
	SourceSubscribeToken  Source = 3
	SourceSubscribeProxy  Source = 4
	SourceUserLimited     Source = 5
	SourceClientAllowed   Source = 6
	SourceInsecure        Source = 7
	SourceConnectRequest  Source = 8
	SourcePersonalChannel Source = 9
	SourceServerAPI       Source = 10
	SourceCapability      Source = 11
	SourceSubscribeStream Source = 13
)

// Facts about the connection of a command.
type Facts struct {
	User string
	// Subscribed: client-side or server-side, to this channel.
	Subscribed bool
	Insecure   bool
	// Rights that the client has by its capabilities and its subscription, whatever the options of the namespace are.
	Rights channel.Rights
}

// Decision on an operation.
type Decision struct {
	By     Authority
	Source Source
	// Err is nil if the rules allow the operation, else a *refusal.Reason with a *protocol.Error.
	Err error
}

func denied(err error) Decision { return Decision{Err: err} }

// DecideSubscribe decides on a subscribe command for a subscription type. c is a result of ForClient.
func (c Channel) DecideSubscribe(f Facts, asked SubscriptionType, hasToken bool) Decision {
	return c.decideSubscribe(f, asked, hasToken, nil)
}

// decideSubscribe records the options that it reads in t.
func (c Channel) decideSubscribe(f Facts, asked SubscriptionType, hasToken bool, t *trace) Decision {
	if asked != c.Type {
		return denied(c.wrongType(asked))
	}
	closed, limited := c.closed(f, t), c.UserLimited()
	switch {
	case t.fact(hasToken, "the client has a subscription token, which decides alone"):
		return Decision{By: Token}
	case closed != nil:
		return denied(closed)
	case t.option(c.AllowUserLimitedChannels, "names of channels may list the users that may subscribe", c.Options, "allow_user_limited_channels") &&
		t.name(limited, "the channel's name lists users, behind channel.user_boundary", "channel.user_boundary", c.resolver.userBoundary) &&
		t.fact(c.ListsUser(f.User), "the channel's name lists this user"):
		return Decision{Source: SourceUserLimited}
	case f.Rights != 0 && t.fact(f.Rights.Has(channel.RightSubscribe), "the capabilities of the client allow it"):
		return c.byCapability(f)
	case !limited && t.option(c.SubscribeProxyEnabled, "the backend decides, by the subscribe proxy", c.Options, "subscribe_proxy_enabled"):
		return Decision{By: SubscribeProxy}
	case !limited && t.option(c.SubscribeStreamProxyEnabled, "the backend decides, by the subscribe stream proxy", c.Options, "subscribe_stream_proxy_enabled"):
		return Decision{By: StreamProxy}
	case !limited && t.permits(c, c.subscribePermission(), f):
		return Decision{Source: SourceClientAllowed}
	case t.name(f.Insecure, "everything is allowed to everybody", "client.insecure", onOff(f.Insecure)):
		return Decision{Source: SourceInsecure}
	}
	return denied(c.denySubscribe(f))
}

// byCapability decides on a subscribe that the capabilities of the client allow. The subscription owes them nothing if
// the options of the namespace allow it, too.
func (c Channel) byCapability(f Facts) Decision {
	f.Rights = 0
	if d := c.decideSubscribe(f, c.Type, false, nil); d.Err == nil && d.By == Rules {
		return d
	}
	return Decision{Source: SourceCapability}
}

// Requested decides on a channel in a connect command. The client does not get the channel if ignored is not nil: the
// reason, a *refusal.Reason. err is a *refusal.Reason with a protocol.Disconnect, for an unknown namespace.
func (r *Resolver) Requested(name string, f Facts) (ch Channel, ignored, err error) {
	if name == "" {
		return Channel{}, errNoName, nil
	}
	ch, err = r.Named(name)
	switch {
	case errors.Is(err, ErrTooLong):
		return ch, err, nil
	case err != nil:
		return ch, nil, refusal.Answer(protocol.DisconnectBadRequest, err)
	case !ch.validName():
		return ch, ch.wrongName(), nil
	}
	if ignored = ch.closed(f, nil); ignored != nil {
		return ch, ignored, nil
	}
	switch {
	case f.Rights.Has(channel.RightSubscribe):
		return ch, nil, nil
	case ch.SubscribeProxyEnabled:
		return ch, ch.refuse(protocol.ErrorPermissionDenied, "subscribe_proxy_enabled", "on", ", and asks for a subscribe command"), nil
	case ch.SubscribeStreamProxyEnabled:
		return ch, ch.refuse(protocol.ErrorPermissionDenied, "subscribe_stream_proxy_enabled", "on", ", and asks for a subscribe command"), nil
	case f.Insecure, ch.UserLimited() && ch.ListsUser(f.User), !ch.UserLimited() && ch.subscribePermission().to(f):
		return ch, nil, nil
	}
	return ch, ch.denySubscribe(f), nil
}

// Owes returns the right without which Requested would not give the client a channel; 0 if there is none.
func (r *Resolver) Owes(name string, f Facts) channel.Rights {
	if !f.Rights.Has(channel.RightSubscribe) {
		return 0
	}
	f.Rights &^= channel.RightSubscribe
	if _, ignored, err := r.Requested(name, f); ignored != nil || err != nil {
		return channel.RightSubscribe
	}
	return 0
}

// DecidePublish decides on a publish command. With StreamProxy the data goes into the open stream of the subscription;
// without one the answer is protocol.ErrorNotAvailable.
func (c Channel) DecidePublish(f Facts, data []byte) Decision {
	switch {
	case c.Type != Stream:
		return denied(c.wrongType(Stream))
	case !c.validFromClient(f, data):
		return denied(c.wrongData())
	case f.Rights.Has(channel.RightPublish):
		return Decision{}
	case c.PublishProxyEnabled:
		return Decision{By: PublishProxy}
	case c.SubscribeStreamProxyEnabled && !c.SubscribeStreamProxyBidi:
		return denied(c.refuse(protocol.ErrorNotAvailable, "subscribe_stream_proxy_bidirectional", "off", ""))
	case c.SubscribeStreamProxyEnabled:
		return Decision{By: StreamProxy}
	case c.publishPermission().to(f), f.Insecure:
		return Decision{}
	}
	return denied(c.deny(c.publishPermission(), f))
}

// DecideMapChange decides on a command that sets an entry of a map, or removes it.
func (c Channel) DecideMapChange(f Facts, removes bool, data []byte) Decision {
	p := permission{"map.allow_publish_for_", "publish", c.Map.AllowPublishForClient, c.Map.AllowPublishForSubscriber, c.Map.AllowPublishForAnonymous}
	proxy, by := c.Map.PublishProxyEnabled, MapPublishProxy
	if removes {
		p = permission{"map.allow_remove_for_", "remove", c.Map.AllowRemoveForClient, c.Map.AllowRemoveForSubscriber, c.Map.AllowRemoveForAnonymous}
		proxy, by = c.Map.RemoveProxyEnabled, MapRemoveProxy
	}
	switch {
	case c.Type < Map || c.Type > MapUsers:
		return denied(c.wrongType(Map))
	case !removes && len(data) > 0 && !c.validFromClient(f, data):
		return denied(c.wrongData())
	case f.Rights.Has(channel.RightPublish):
		return Decision{}
	case proxy:
		return Decision{By: by}
	case p.to(f), f.Insecure:
		return Decision{}
	}
	return denied(c.deny(p, f))
}

// MapKey returns the key of a change that the rules allow: the client's key, or the key that map.client_key prescribes.
// The error is a *refusal.Reason.
func (c Channel) MapKey(key, client, user string) (string, error) {
	switch c.Map.ClientKey {
	case "client_id":
		return client, nil
	case "user_id":
		if user == "" {
			return "", c.refuse(protocol.ErrorPermissionDenied, "map.client_key", "user_id", ", and the client has no user")
		}
		return user, nil
	}
	if key == "" {
		return "", errNoKey
	}
	return key, nil
}

// CheckPresence decides on a presence or presence stats command. The error is a *refusal.Reason.
func (c Channel) CheckPresence(f Facts) error {
	switch {
	case !c.Presence:
		return c.refuse(protocol.ErrorNotAvailable, "presence", "off", "")
	case c.mayPresence(f):
		return nil
	}
	return c.deny(c.presencePermission(), f)
}

// CheckHistory decides on a history command. The error is a *refusal.Reason.
func (c Channel) CheckHistory(f Facts) error {
	switch {
	case c.HistorySize <= 0:
		return c.refuse(protocol.ErrorNotAvailable, "history_size", "0", "")
	case c.HistoryTTL <= 0:
		return c.refuse(protocol.ErrorNotAvailable, "history_ttl", "0", "")
	case c.mayHistory(f):
		return nil
	}
	return c.deny(c.historyPermission(), f)
}

func (c Channel) mayPresence(f Facts) bool {
	return f.Rights.Has(channel.RightPresence) || c.presencePermission().to(f) || f.Insecure
}

func (c Channel) mayHistory(f Facts) bool {
	return f.Rights.Has(channel.RightHistory) || c.historyPermission().to(f) || f.Insecure
}

// Wishes of a subscribe command.
type Wishes struct {
	Positioned, Recoverable, JoinLeave bool
}

// Grant returns the granted wishes, for a subscription that the rules or a token allow; the others are off. Options that
// the namespace forces are the caller's concern.
func (c Channel) Grant(f Facts, w Wishes) Wishes {
	f.Subscribed = true
	history := c.mayHistory(f)
	return Wishes{
		Positioned:  w.Positioned && (c.AllowPositioning || history),
		Recoverable: w.Recoverable && (c.AllowRecovery || history),
		JoinLeave:   w.JoinLeave && c.JoinLeave && c.mayPresence(f),
	}
}

// grantByRights is Grant if the options of the namespace grant nothing.
func (c Channel) grantByRights(f Facts, w Wishes) Wishes {
	history := f.Rights.Has(channel.RightHistory)
	return Wishes{
		Positioned: w.Positioned && history, Recoverable: w.Recoverable && history,
		JoinLeave: w.JoinLeave && c.JoinLeave && f.Rights.Has(channel.RightPresence),
	}
}

// validFromClient is ValidData for a publication of a client. The default is JSON, because JSON connections cannot get
// other data. client.insecure lifts that for test suites of SDKs.
func (o *Options) validFromClient(f Facts, data []byte) bool {
	if o.PublicationDataFormat == "" && !f.Insecure {
		return codec.ValidJSON(data)
	}
	return o.ValidData(data)
}

// ValidData reports whether a payload has the publication_data_format. JSON must be UTF-8: other texts would end the
// connections of JSON subscribers.
func (o *Options) ValidData(data []byte) bool {
	switch o.PublicationDataFormat {
	case "binary":
		return true
	case "json":
		return codec.ValidJSON(data)
	case "json_object":
		for _, b := range data {
			switch b {
			case ' ', '\t', '\r', '\n':
				continue
			}
			return b == '{' && codec.ValidJSON(data)
		}
		return false
	}
	return len(data) > 0
}
