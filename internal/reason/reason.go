// Package reason says why a session refuses something, and which setting would allow it.
package reason

import (
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Kinds of the refusals that a session decides on.
const ConnectRefused, CommandRefused = "connect refused", "command refused"

// DeltaFossil is the only delta type.
const DeltaFossil = "fossil"

// Reasons of refusals that a session decides on.
var (
	NoCredentials      = refusal.Because(protocol.DisconnectBadRequest, "Handlers.Connecting", "neither the Connecting handler nor the context of the request (gyro.SetCredentials) has credentials")
	CredentialsExpired = refusal.Because(protocol.ErrorExpired, "", "the client's credentials have expired")
	Stale              = refusal.Because(protocol.DisconnectStale, "Config.StaleCloseDelay", "no connect command came in time")
	NotConnect         = refusal.Because(protocol.DisconnectBadRequest, "", "the first command is not a connect command with an id")
	NoID               = refusal.Because(protocol.DisconnectBadRequest, "", "a second connect command, or a command without an id")
	Ping               = refusal.Because(protocol.ErrorNotAvailable, "", "the ping command is not used: the server sends pings")
	UnknownCommand     = refusal.Because(protocol.DisconnectBadRequest, "", "the command has no method that clients may use")
	Pong               = refusal.Because(protocol.DisconnectBadRequest, "", "an empty command, which is a pong, without a ping before it")
	NoChannel          = refusal.Because(protocol.DisconnectBadRequest, "", "the command names no channel")
	Delta              = refusal.Because(protocol.DisconnectBadRequest, "", "the delta type is not "+DeltaFossil)
	Subscribed         = refusal.Because(protocol.ErrorAlreadySubscribed, "", "the client is already subscribed to the channel, or about to be")
	NotSubscribed      = refusal.Because(protocol.ErrorPermissionDenied, "", "the client is not subscribed to the channel")
	NoToken            = refusal.Because(protocol.ErrorBadRequest, "", "the command has no token")
	NoRefresh          = refusal.Because(protocol.DisconnectBadRequest, "", "the command has no token, or the server does not expect the client to refresh")
	HistoryFiltered    = refusal.Because(protocol.ErrorPermissionDenied, "SubscribeOptions.ServerTagsFilter", "history is not filtered, and the server filters what the subscription gets")
	Since              = refusal.Because(protocol.ErrorBadRequest, "", "nothing is before offset 0: since.offset is 0 and reverse is set")
	SubExpired         = refusal.Because(protocol.ErrorExpired, "", "the time at which the subscription is to expire is past")
	noPoll             = refusal.Because(protocol.ErrorNotAvailable, "SubscribeOptions.Poll", "the channel has no keys to track")
	noMap              = refusal.Because(protocol.ErrorNotAvailable, "SubscribeOptions.Map", "the channel is no map")
	otherType          = refusal.Because(protocol.ErrorBadRequest, "SubscribeOptions.Map", "the channel is not of the type that the client asks for")
	ServerMap          = refusal.Because(protocol.ErrorBadRequest, "SubscribeOptions.Map", "the channel is a map, or has keys to track: the client has to subscribe itself")
	NoCursor           = refusal.Because(protocol.ErrorPermissionDenied, "", "the command has a cursor, and the client reads no pages of this map")
	Paging             = refusal.Because(protocol.ErrorConcurrentPagination, "", "another page of this map is being read for the client")
	Bookmark           = refusal.Because(protocol.ErrorLimitExceeded, "", "the positions of all recoverable channels do not fit into a bookmark: let the client subscribe to fewer channels, or to channels with shorter names")
	Late               = refusal.Because(protocol.DisconnectSlow, "MapSubscription.CatchUpTimeout", "the client took too long to catch up with the map")
)

// Type returns why a subscription of a type (channel.SubscribeOptions.Type) is not what a client has asked
// for, or what the server may make; nil if it is.
func Type(of, asked int32, serverSide bool) error {
	switch {
	case of != 0 && serverSide:
		return ServerMap
	case of == asked:
		return nil
	case asked == 4:
		return noPoll
	case of == 0:
		return noMap
	}
	return otherType
}

// NoHandler is the reason of commands that the application has no handler for.
func NoHandler(answer error, name string) error {
	return refusal.Because(answer, "Handlers."+name, "the application has no "+name+" handler, or not for this type of channel")
}
