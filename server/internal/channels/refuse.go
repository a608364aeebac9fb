package channels

import (
	"fmt"
	"strconv"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Refusals without an option of a namespace. All errors of this package that answer clients are refusal.Reasons.
var (
	// ErrTooLong is for names above channel.max_length; it wraps protocol.ErrorBadRequest.
	ErrTooLong = fmt.Errorf("channel name too long: %w", protocol.ErrorBadRequest)

	errUnknown = refusal.Because(protocol.ErrorUnknownChannel, "channel.namespaces",
		"no namespace has the name that is before the first channel.namespace_boundary")
	errNoRPC    = refusal.Because(protocol.ErrorNotAvailable, "rpc.without_namespace.proxy_enabled", "no RPC proxy is enabled")
	errRPCOff   = refusal.Because(protocol.ErrorNotAvailable, "rpc.namespaces[].proxy_enabled", "proxy_enabled is off in the method's RPC namespace")
	errNoMethod = refusal.Because(protocol.ErrorMethodNotFound, "rpc.namespaces", "the server has no such RPC method")
	errNoKey    = refusal.Because(protocol.ErrorBadRequest, "", "the command names no key of the map")
	errPersonal = refusal.Because(protocol.ErrorPermissionDenied, "client.subscribe_to_user_personal_channel.enabled",
		"the channel is the personal channel of another user, so a subscription token is needed")
	errNoName = refusal.Because(protocol.DisconnectBadRequest, "", "the command names no channel")
)

func tooLong(limit int) error {
	return refusal.Because(ErrTooLong, "channel.max_length", "the channel's name has more than "+strconv.Itoa(limit)+" bytes")
}

// OptionKey is the full key of an option of a channel's namespace, known or not.
func (r *Resolver) OptionKey(name, option string) string {
	return (&Options{Name: r.Namespace(name)}).key(option)
}

func (o *Options) key(option string) string {
	if o.Name == "" {
		return "channel.without_namespace." + option
	}
	return "channel.namespaces[" + o.Name + "]." + option
}

// refuse answers because of an option. The text is "OPTION is SETTING in the namespace" and more.
func (o *Options) refuse(answer error, option, setting, more string) error {
	where := " for channels without a namespace"
	if o.Name != "" {
		where = " in namespace " + o.Name
	}
	return refusal.Because(answer, o.key(option), option+" is "+setting+where+more)
}

// permission has the options PREFIXclient, PREFIXsubscriber and PREFIXanonymous of an operation.
type permission struct {
	prefix, operation             string
	client, subscriber, anonymous bool
}

func (c Channel) subscribePermission() permission {
	return permission{"allow_subscribe_for_", "subscribe", c.AllowSubscribeForClient, false, c.AllowSubscribeForAnonymous}
}

func (c Channel) publishPermission() permission {
	return permission{"allow_publish_for_", "publish", c.AllowPublishForClient, c.AllowPublishForSubscriber, c.AllowPublishForAnonymous}
}

func (c Channel) presencePermission() permission {
	return permission{"allow_presence_for_", "presence", c.AllowPresenceForClient, c.AllowPresenceForSubscriber, c.AllowPresenceForAnonymous}
}

func (c Channel) historyPermission() permission {
	return permission{"allow_history_for_", "history", c.AllowHistoryForClient, c.AllowHistoryForSubscriber, c.AllowHistoryForAnonymous}
}

func (p permission) to(f Facts) bool {
	return (p.client || p.subscriber && f.Subscribed) && (f.User != "" || p.anonymous)
}

// deny refuses an operation, and names the smallest change that would permit it.
func (c Channel) deny(p permission, f Facts) error {
	option, more := p.prefix, ""
	switch {
	case p.client, p.subscriber && f.Subscribed:
		option, more = option+"anonymous", ", and the client has no user"
	case p.operation == "subscribe":
		option, more = option+"client", ", and the client has no subscription token"
	case f.Subscribed:
		option += "subscriber"
	case p.subscriber:
		option, more = option+"client", ", and the client is not subscribed to the channel"
	default:
		option += "client"
	}
	return c.refuse(protocol.ErrorPermissionDenied, option, "off", more)
}

func (c Channel) denySubscribe(f Facts) error {
	if c.UserLimited() {
		return c.refuse(protocol.ErrorPermissionDenied, "allow_user_limited_channels", "on",
			", and the channel's name lists the users that may subscribe, without this one")
	}
	return c.deny(c.subscribePermission(), f)
}

func denyPrivate() error {
	return refusal.Because(protocol.ErrorPermissionDenied, "channel.private_prefix",
		"the channel's name begins with channel.private_prefix, so a subscription token is needed")
}

func (c Channel) wrongType(asked SubscriptionType) error {
	answer := protocol.ErrorPermissionDenied
	switch {
	case asked == SharedPoll:
		answer = protocol.ErrorNotAvailable
	case c.Type == SharedPoll:
		answer = protocol.ErrorBadRequest
	}
	setting := c.SubscriptionType
	if setting == "" {
		setting = "stream"
	}
	return c.refuse(answer, "subscription_type", setting, ", and the client asked for another type")
}

func (c Channel) wrongName() error {
	if c.regex != nil {
		return c.refuse(protocol.ErrorBadRequest, "channel_regex", "set", ", and the channel's name does not match it")
	}
	return c.refuse(protocol.ErrorBadRequest, "channel_regex", "not set", ", and then the channel's name must be ASCII")
}

// CheckData refuses a payload of the backend that does not have the publication_data_format. Without one, all pass.
func (c Channel) CheckData(data []byte) error {
	if c.PublicationDataFormat == "" || c.ValidData(data) {
		return nil
	}
	return c.wrongData()
}

func (c Channel) wrongData() error {
	if c.PublicationDataFormat == "" {
		return c.refuse(protocol.ErrorBadRequest, "publication_data_format", "not set", ", and then the data of clients has to be JSON")
	}
	return c.refuse(protocol.ErrorBadRequest, "publication_data_format", c.PublicationDataFormat, ", and the data is something else")
}
