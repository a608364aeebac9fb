package channels

import (
	"context"
	"errors"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/auth"
)

// Subscription returns the options that the namespace of a channel gives a subscription.
func Subscription(ch Channel, source Source) gyro.SubscribeOptions {
	o := gyro.SubscribeOptions{
		Presence:         ch.Presence,
		EmitJoinLeave:    ch.JoinLeave,
		PushJoinLeave:    ch.ForcePushJoinLeave,
		Recoverable:      ch.ForceRecovery,
		Positioned:       ch.ForcePositioning,
		AutoRecover:      ch.AutoCacheRecover,
		HistoryMetaTTL:   ch.HistoryMetaTTL,
		AllowDelta:       len(ch.AllowedDeltaTypes) > 0,
		AllowTagsFilter:  ch.AllowTagsFilter,
		BatchMaxDelay:    ch.BatchMaxDelay,
		BatchMaxSize:     ch.BatchMaxSize,
		BatchFlushLatest: ch.BatchFlushLatest,
		AllowCompaction:  ch.AllowChannelCompaction,
		PublishDebounce:  ch.ClientPublishDebounce,
		Map:              mapSubscription(ch),
		PresenceMaps:     presenceMaps(ch),
		Source:           uint8(source),
	}
	if ch.Type == SharedPoll {
		o.Poll = unasked
	}
	if ch.ForceRecoveryMode == "cache" {
		o.RecoveryMode = channel.RecoverCache
	}
	if len(ch.FullStates) > 0 { // a new subscriber gets the present state
		o.Recoverable, o.AutoRecover, o.RecoveryMode = true, true, channel.RecoverCache
	}
	return o
}

// unasked stands for the shared poll of a namespace: with it, the node refuses subscriptions that the server
// makes. The handler of subscribe commands replaces it.
var unasked = &channel.SharedPoll{
	Poll: func(context.Context, string, []channel.PolledKey) (channel.PollAnswer, error) {
		return channel.PollAnswer{}, errors.New("the namespace has no shared poll")
	},
}

// Override replaces options of the namespace by options of a token or the backend.
func Override(o *gyro.SubscribeOptions, by auth.Override) {
	set := func(option, value *bool) {
		if value != nil {
			*option = *value
		}
	}
	set(&o.Presence, by.Presence)
	set(&o.EmitJoinLeave, by.JoinLeave)
	set(&o.PushJoinLeave, by.ForcePushJoinLeave)
	set(&o.Recoverable, by.ForceRecovery)
	set(&o.Positioned, by.ForcePositioning)
	o.AutoRecover = o.AutoRecover && o.Recoverable
}

// Publication returns the history options that the namespace of a channel gives a publication of
// a client.
func Publication(ch Channel) gyro.PublishOptions {
	return gyro.PublishOptions{
		HistorySize: ch.HistorySize, HistoryTTL: ch.HistoryTTL, HistoryMetaTTL: ch.HistoryMetaTTL,
		SkipHistory: ch.HistorySize == 0,
	}
}

// Subscribe adds a server-side subscription to the answer to a connect command.
func Subscribe(reply *gyro.ConnectReply, ch string, o gyro.SubscribeOptions) {
	if reply.Subscriptions == nil {
		reply.Subscriptions = make(map[string]gyro.SubscribeOptions)
	}
	reply.Subscriptions[ch] = o
}

// Ignore adds a channel that the client asked for and does not get, with the reason, to the answer to a connect
// command.
func Ignore(reply *gyro.ConnectReply, ch string, why error) {
	if reply.Ignored == nil {
		reply.Ignored = make(map[string]error)
	}
	reply.Ignored[ch] = why
}
