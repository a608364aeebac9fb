package api

import (
	"context"
	"errors"
	"strings"

	"github.com/gyrohq/gyro/refusal"
)

// option begins the keys of refusals because of a namespace option.
const option = "channel.namespaces[]."

var (
	errNoChannel  = refusal.Because(ErrBadRequest, "", "the request names no channel: member channel is missing or empty")
	errNoChannels = refusal.Because(ErrBadRequest, "", "the request names no channels: member channels is missing or empty")
	errBase64     = refusal.Because(ErrBadRequest, "", "a member whose name begins with b64 is not Base64")
	errNoData     = refusal.Because(ErrBadRequest, option+"publication_data_format", "member data is missing or empty")
	errNotStream  = refusal.Because(ErrBadRequest, option+"subscription_type", "subscription_type of the channel's namespace is not stream: map_publish and shared_poll_publish are for the others")
	errServerSide = refusal.Because(ErrBadRequest, option+"subscription_type", "subscription_type of the channel's namespace is not stream: clients have to subscribe themselves")
	errNotMap     = refusal.Because(ErrBadRequest, option+"subscription_type", "subscription_type of the channel's namespace is not one of map, map_clients and map_users")
	errNotPoll    = refusal.Because(ErrBadRequest, option+"subscription_type", "subscription_type of the channel's namespace is not shared_poll")
	errPollOff    = refusal.Because(ErrNotAvailable, option+"shared_poll.publish_enabled", "shared_poll.publish_enabled is off in the channel's namespace")
	errPresence   = refusal.Because(ErrNotAvailable, option+"presence", "presence is off in the channel's namespace")
	errHistory    = refusal.Because(ErrNotAvailable, option+"history_size", "history_size or history_ttl is 0 in the channel's namespace")
	errSince      = refusal.Because(ErrBadRequest, "", "nothing is before offset 0: since.offset is 0 and reverse is set")
	errPattern    = refusal.Because(ErrInternal, "", "the pattern is malformed")
	errNoKey      = refusal.Because(ErrBadRequest, "", "member key is missing or empty")
	errNoVersion  = refusal.Because(ErrBadRequest, "", "member version is missing or 0")
	errKeyMode    = refusal.Because(ErrBadRequest, "", "key_mode is not one of if_new and if_exists")
	errKeyed      = refusal.Because(ErrNotAvailable, "", "the server has neither maps nor shared poll channels")
	errNobody     = refusal.Because(ErrBadRequest, "", "the request does not say which connections: one of the members user, client, channel, label_filter and expression is needed")
	errNoUser     = refusal.Because(ErrBadRequest, "", "the request names no user: member user is missing or empty")
	errFilter     = refusal.Because(ErrBadRequest, "", "member label_filter is no valid filter, or limit is not from 0 to 1000")
	errLimit      = refusal.Because(ErrBadRequest, "", "member limit is not from 0 to 1000")
	errNoMethod   = refusal.Because(ErrBadRequest, "", "member method is missing or empty")
	errMethod     = refusal.Because(ErrNotFound, "", "the server has no such RPC extension")
	errCommand    = refusal.Because(ErrNotFound, "", "the batch has an element that is no command, or is a batch")
	errNull       = refusal.Because(ErrBadRequest, "", "the batch has a command whose request is null")
)

// failed converts an error into an error of the API, and logs the reason, which the caller does not get.
func (e *Executor) failed(ctx context.Context, m Method, ch string, err error) *Error {
	apiErr := fromNode(err)
	_, refused := errors.AsType[*refusal.Reason](err)
	switch {
	case refused, apiErr.Code != ErrInternal.Code:
		if key, text := refusal.Explain(err); strings.HasPrefix(key, option) && ch != "" {
			err = refusal.Because(apiErr, e.channels().OptionKey(ch, key[len(option):]), text)
		}
		e.refusals.Report(refusal.Refusal{Kind: "API command refused", Channel: ch, Method: m.String()}, apiErr.Code, err)
	case !errors.Is(err, context.Canceled):
		e.refusals.Log.ErrorContext(ctx, "API command failed", "method", m.String(), "channel", ch, "error", err)
	}
	return apiErr
}
