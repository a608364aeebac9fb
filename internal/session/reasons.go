package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Kinds of the refusals that a session decides on.
const ConnectRefused, commandRefused = "connect refused", "command refused"

const deltaFossil = "fossil"

// Reasons with the setting that would allow the command.
var (
	errNoCredentials      = refusal.Because(protocol.DisconnectBadRequest, "Handlers.Connecting", "neither the Connecting handler nor the context of the request (gyro.SetCredentials) has credentials")
	errCredentialsExpired = refusal.Because(protocol.ErrorExpired, "", "the client's credentials have expired")
	errStale              = refusal.Because(protocol.DisconnectStale, "Config.StaleCloseDelay", "no connect command came in time")
	errNotConnect         = refusal.Because(protocol.DisconnectBadRequest, "", "the first command is not a connect command with an id")
	errNoID               = refusal.Because(protocol.DisconnectBadRequest, "", "a second connect command, or a command without an id")
	errPing               = refusal.Because(protocol.ErrorNotAvailable, "", "the ping command is not used: the server sends pings")
	errUnknownCommand     = refusal.Because(protocol.DisconnectBadRequest, "", "the command has no method that clients may use")
	errPong               = refusal.Because(protocol.DisconnectBadRequest, "", "an empty command, which is a pong, without a ping before it")
	errNoChannel          = refusal.Because(protocol.DisconnectBadRequest, "", "the command names no channel")
	errDelta              = refusal.Because(protocol.DisconnectBadRequest, "", "the delta type is not "+deltaFossil)
	errSubscribed         = refusal.Because(protocol.ErrorAlreadySubscribed, "", "the client is already subscribed to the channel, or about to be")
	errNotSubscribed      = refusal.Because(protocol.ErrorPermissionDenied, "", "the client is not subscribed to the channel")
	errNoToken            = refusal.Because(protocol.ErrorBadRequest, "", "the command has no token")
	errNoRefresh          = refusal.Because(protocol.DisconnectBadRequest, "", "the command has no token, or the server does not expect the client to refresh")
	errHistoryFiltered    = refusal.Because(protocol.ErrorPermissionDenied, "SubscribeOptions.ServerTagsFilter", "history is not filtered, and the server filters what the subscription gets")
	errSince              = refusal.Because(protocol.ErrorBadRequest, "", "nothing is before offset 0: since.offset is 0 and reverse is set")
	errSubExpired         = refusal.Because(protocol.ErrorExpired, "", "the time at which the subscription is to expire is past")
	errNoPoll             = refusal.Because(protocol.ErrorNotAvailable, "SubscribeOptions.Poll", "the channel has no keys to track")
	errNoMap              = refusal.Because(protocol.ErrorNotAvailable, "SubscribeOptions.Map", "the channel is no map")
	errOtherType          = refusal.Because(protocol.ErrorBadRequest, "SubscribeOptions.Map", "the channel is not of the type that the client asks for")
	ErrServerMap          = refusal.Because(protocol.ErrorBadRequest, "SubscribeOptions.Map", "the channel is a map, or has keys to track: the client has to subscribe itself")
	errNoCursor           = refusal.Because(protocol.ErrorPermissionDenied, "", "the command has a cursor, and the client reads no pages of this map")
	errPaging             = refusal.Because(protocol.ErrorConcurrentPagination, "", "another page of this map is being read for the client")
	errBookmark           = refusal.Because(protocol.ErrorLimitExceeded, "", "the positions of all recoverable channels do not fit into a bookmark: let the client subscribe to fewer channels, or to channels with shorter names")
	ErrLate               = refusal.Because(protocol.DisconnectSlow, "MapSubscription.CatchUpTimeout", "the client took too long to catch up with the map")
)

// typeRefusal is why a subscription of one type (channel.SubscribeOptions.Type) is refused to a client that asked for
// another, or to the server; nil if the type fits.
func typeRefusal(of, asked int32, serverSide bool) error {
	switch {
	case of != 0 && serverSide:
		return ErrServerMap
	case of == asked:
		return nil
	case asked == channel.TypeSharedPoll:
		return errNoPoll
	case of == 0:
		return errNoMap
	}
	return errOtherType
}

func noHandler(answer error, name string) error {
	return refusal.Because(answer, "Handlers."+name, "the application has no "+name+" handler, or not for this type of channel")
}
