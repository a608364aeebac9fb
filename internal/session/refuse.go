package session

import (
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Kinds of the refusals that a session decides on.
const connectionRefused, commandRefused = "connection refused", "command refused"

// Reasons of these refusals.
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
	errSince              = refusal.Because(protocol.ErrorBadRequest, "", "nothing is before offset 0: since.offset is 0 and reverse is set")
	errSubExpired         = refusal.Because(protocol.ErrorExpired, "", "the time at which the subscription is to expire is past")
	errFilterOff          = refusal.Because(protocol.ErrorBadRequest, "SubscribeOptions.AllowTagsFilter", "the subscription may not have a tags filter")
	errFilter             = refusal.Because(protocol.ErrorBadRequest, "", "the tags filter is malformed")
)

// noHandler is the reason of commands that the application has no handler for.
func noHandler(answer error, name string) error {
	return refusal.Because(answer, "Handlers."+name, "the application has no "+name+" handler, or not for this type of channel")
}

// refuse answers a command, on ch if that is not empty, by the answer of why.
func (s *Session) refuse(id uint32, ch string, why error) {
	s.env.Explain(commandRefused, ch, why)
	s.fail(id, why)
}
