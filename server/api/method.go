package api

import (
	"context"

	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

// Method is a command of the API.
type Method uint8

// The order is that in which a batch command with several members is looked at
// (server-api.md section 7).
const (
	MethodPublish Method = iota
	MethodBroadcast
	MethodSubscribe
	MethodUnsubscribe
	MethodDisconnect
	MethodHistory
	MethodHistoryRemove
	MethodPresence
	MethodPresenceStats
	MethodInfo
	MethodRPC
	MethodRefresh
	MethodChannels
	MethodMapPublish
	MethodMapRemove
	MethodMapReadState
	MethodMapReadStream
	MethodMapStats
	MethodMapClear
	MethodSharedPollPublish
	// MethodBatch comes last: it cannot be part of a batch.
	MethodBatch
)

// Request is the request of a command: a pointer to one of this package's types.
type Request interface {
	Method() Method
	decode(d *jsonx.Decoder)
	execute(ctx context.Context, e *Executor) (Result, error)
}

// Result is the result of a command that succeeded.
type Result interface {
	encode(w *jsonx.Writer)
}

var methods = [...]struct {
	name string
	new  func() Request
}{
	MethodPublish:           {"publish", func() Request { return new(PublishRequest) }},
	MethodBroadcast:         {"broadcast", func() Request { return new(BroadcastRequest) }},
	MethodSubscribe:         {"subscribe", func() Request { return new(SubscribeRequest) }},
	MethodUnsubscribe:       {"unsubscribe", func() Request { return new(UnsubscribeRequest) }},
	MethodDisconnect:        {"disconnect", func() Request { return new(DisconnectRequest) }},
	MethodHistory:           {"history", func() Request { return new(HistoryRequest) }},
	MethodHistoryRemove:     {"history_remove", func() Request { return new(HistoryRemoveRequest) }},
	MethodPresence:          {"presence", func() Request { return new(PresenceRequest) }},
	MethodPresenceStats:     {"presence_stats", func() Request { return new(PresenceStatsRequest) }},
	MethodInfo:              {"info", func() Request { return new(InfoRequest) }},
	MethodRPC:               {"rpc", func() Request { return new(RPCRequest) }},
	MethodRefresh:           {"refresh", func() Request { return new(RefreshRequest) }},
	MethodChannels:          {"channels", func() Request { return new(ChannelsRequest) }},
	MethodMapPublish:        {"map_publish", func() Request { return new(MapPublishRequest) }},
	MethodMapRemove:         {"map_remove", func() Request { return new(MapRemoveRequest) }},
	MethodMapReadState:      {"map_read_state", func() Request { return new(MapReadStateRequest) }},
	MethodMapReadStream:     {"map_read_stream", func() Request { return new(MapReadStreamRequest) }},
	MethodMapStats:          {"map_stats", func() Request { return new(MapStatsRequest) }},
	MethodMapClear:          {"map_clear", func() Request { return new(MapClearRequest) }},
	MethodSharedPollPublish: {"shared_poll_publish", func() Request { return new(SharedPollPublishRequest) }},
	MethodBatch:             {"batch", func() Request { return new(BatchRequest) }},
}

var methodByName = func() map[string]Method {
	byName := make(map[string]Method, len(methods))
	for m := range methods {
		byName[methods[m].name] = Method(m)
	}
	return byName
}()

// Methods returns all of them.
func Methods() []Method {
	all := make([]Method, len(methods))
	for m := range methods {
		all[m] = Method(m)
	}
	return all
}

// MethodByName finds a method by its name, which is in lower case.
func MethodByName(name string) (Method, bool) {
	m, ok := methodByName[name]
	return m, ok
}

// String returns the method's name.
func (m Method) String() string {
	if int(m) < len(methods) {
		return methods[m].name
	}
	return "unknown"
}

// NewRequest returns an empty request of the method, one of the constants.
func (m Method) NewRequest() Request { return methods[m].new() }
