package channels

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
)

// granted returns the options that a namespace gives all its subscriptions. The tag grant of an option names the field;
// "-" marks an option that subscribers should know, and that is not simply copied.
func granted(o *config.ChannelOptions) (g gyro.SubscribeOptions) {
	from, to := reflect.ValueOf(o).Elem(), reflect.ValueOf(&g).Elem()
	for i := range from.NumField() {
		if field := from.Type().Field(i).Tag.Get("grant"); field != "" && field != "-" {
			to.FieldByName(field).Set(from.Field(i)) // panics if there is no such field, or it has another type
		}
	}
	g.AllowDelta = len(o.AllowedDeltaTypes) > 0
	if o.ForceRecoveryMode == "cache" {
		g.RecoveryMode = channel.RecoverCache
	}
	return g
}

// Subscription returns the options that the namespace of a channel gives a subscription.
func Subscription(ch Channel, source Source) gyro.SubscribeOptions {
	o := ch.granted
	o.Map, o.PresenceMaps, o.Source = mapSubscription(ch), presenceMaps(ch), uint8(source)
	if ch.Type == SharedPoll {
		o.Poll = unasked
	}
	if len(ch.FullStates) > 0 { // a new subscriber gets the present state
		o.Recoverable, o.AutoRecover, o.RecoveryMode = true, true, channel.RecoverCache
	}
	return o
}

// Describe returns the options with a tag grant that are not off, by their keys.
func Describe(o *Options) map[string]string {
	out := map[string]string{"subscription_type": config.TypeStream}
	from := reflect.ValueOf(&o.ChannelOptions).Elem()
	for i := range from.NumField() {
		tag, v := from.Type().Field(i).Tag, from.Field(i)
		if _, ok := tag.Lookup("grant"); !ok || v.IsZero() {
			continue
		}
		switch x := v.Interface().(type) {
		case bool:
			out[tag.Get("key")] = "on"
		case []string:
			out[tag.Get("key")] = strings.Join(x, ",")
		default:
			out[tag.Get("key")] = fmt.Sprint(x)
		}
	}
	return out
}

// Wish switches on what the client wished and the channel or its rights grant. The subscription needs the rights of the
// client's capabilities that granted something which nothing else grants. byNamespace is false if the backend has decided
// instead of the namespace.
func Wish(o *gyro.SubscribeOptions, ch Channel, f Facts, w Wishes, byNamespace bool) {
	grant := ch.Grant
	if !byNamespace {
		grant = ch.grantByRights
	}
	own := f
	own.Rights = o.Rights
	f.Rights |= o.Rights
	granted, without := grant(f, w), grant(own, w)
	switched := func(option *bool, granted, without bool, needs channel.Rights) {
		if granted && !*option {
			*option = true
			if !without {
				o.Needs |= needs
			}
		}
	}
	switched(&o.Positioned, granted.Positioned, without.Positioned, channel.RightHistory)
	switched(&o.Recoverable, granted.Recoverable, without.Recoverable, channel.RightHistory)
	switched(&o.PushJoinLeave, granted.JoinLeave, without.JoinLeave, channel.RightPresence)
}

// unasked stands for the shared poll of a namespace: with it, the node refuses server-side subscriptions. The handler of
// subscribe commands replaces it.
var unasked = &channel.SharedPoll{
	Poll: func(context.Context, string, []channel.PolledKey) (channel.PollAnswer, error) {
		return channel.PollAnswer{}, errors.New("the namespace has no shared poll")
	},
}

// Override applies the options of a token or the backend.
func Override(o *gyro.SubscribeOptions, replaced auth.Override) {
	set := func(option, value *bool) {
		if value != nil {
			*option = *value
		}
	}
	set(&o.Presence, replaced.Presence)
	set(&o.EmitJoinLeave, replaced.JoinLeave)
	set(&o.PushJoinLeave, replaced.ForcePushJoinLeave)
	set(&o.Recoverable, replaced.ForceRecovery)
	set(&o.Positioned, replaced.ForcePositioning)
	o.AutoRecover = o.AutoRecover && o.Recoverable
}

// Publication returns the history options of a client's publication in a channel.
func Publication(ch Channel) gyro.PublishOptions {
	return gyro.PublishOptions{
		HistorySize: ch.HistorySize, HistoryTTL: ch.HistoryTTL, HistoryMetaTTL: ch.HistoryMetaTTL,
		SkipHistory: ch.HistorySize == 0,
	}
}

// Subscribe adds a server-side subscription to the reply to a connect.
func Subscribe(reply *gyro.ConnectReply, ch string, o gyro.SubscribeOptions) {
	if reply.Subscriptions == nil {
		reply.Subscriptions = make(map[string]gyro.SubscribeOptions)
	}
	reply.Subscriptions[ch] = o
}

// Ignore adds a requested channel that the client does not get to the reply to a connect, with the reason.
func Ignore(reply *gyro.ConnectReply, ch string, why error) {
	if reply.Ignored == nil {
		reply.Ignored = make(map[string]error)
	}
	reply.Ignored[ch] = why
}
