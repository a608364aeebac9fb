package api

import (
	"context"

	"github.com/gyrohq/gyro/server/internal/channels"
)

// Keyed executes commands of map and shared poll channels after the checks of their fields; B64Data is decoded into
// Data. Errors are mapped like errors of a node. Any goroutine may call it.
type Keyed interface {
	// MapPublish gets Delta with delta_publish applied.
	MapPublish(ctx context.Context, r *MapPublishRequest) (*MapPublishResult, error)
	MapRemove(ctx context.Context, r *MapRemoveRequest) (*MapRemoveResult, error)
	MapReadState(ctx context.Context, r *MapReadStateRequest) (*MapReadStateResult, error)
	MapReadStream(ctx context.Context, r *MapReadStreamRequest) (*MapReadStreamResult, error)
	MapStats(ctx context.Context, r *MapStatsRequest) (*MapStatsResult, error)
	MapClear(ctx context.Context, r *MapClearRequest) (*MapClearResult, error)
	SharedPollPublish(ctx context.Context, r *SharedPollPublishRequest) (*SharedPollPublishResult, error)
}

func (e *Executor) mapChannel(name string) (channels.Channel, error) {
	ch, err := e.channel(name)
	if err == nil && !ch.IsMap() {
		err = errNotMap
	}
	return ch, err
}

// keyed calls a method of Keyed.
func keyed[Q, R any](ctx context.Context, e *Executor, m Method, ch string, call func(Keyed, context.Context, *Q) (*R, error), r *Q) (*R, error) {
	if e.keyed == nil {
		return nil, e.failed(ctx, m, ch, errKeyed)
	}
	res, err := call(e.keyed, ctx, r)
	if err != nil {
		return nil, e.failed(ctx, m, ch, err)
	}
	return res, nil
}

// MapPublish executes a map_publish command.
func (e *Executor) MapPublish(ctx context.Context, r *MapPublishRequest) (*MapPublishResult, error) {
	if r.Key == "" {
		return nil, e.failed(ctx, MethodMapPublish, r.Channel, errNoKey)
	}
	ch, err := e.mapChannel(r.Channel)
	if err != nil {
		return nil, e.failed(ctx, MethodMapPublish, r.Channel, err)
	}
	if r.KeyMode != "" && r.KeyMode != "if_new" && r.KeyMode != "if_exists" {
		return nil, e.failed(ctx, MethodMapPublish, r.Channel, errKeyMode)
	}
	checked := *r
	if checked.Data, err = payload(r.Data, r.B64Data); err != nil {
		return nil, e.failed(ctx, MethodMapPublish, r.Channel, err)
	}
	checked.B64Data = ""
	checked.Delta = r.Delta || ch.DeltaPublish
	return keyed(ctx, e, MethodMapPublish, r.Channel, Keyed.MapPublish, &checked)
}

// MapRemove executes a map_remove command.
func (e *Executor) MapRemove(ctx context.Context, r *MapRemoveRequest) (*MapRemoveResult, error) {
	if r.Key == "" {
		return nil, e.failed(ctx, MethodMapRemove, r.Channel, errNoKey)
	}
	if _, err := e.mapChannel(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodMapRemove, r.Channel, err)
	}
	return keyed(ctx, e, MethodMapRemove, r.Channel, Keyed.MapRemove, r)
}

// MapReadState executes a map_read_state command.
func (e *Executor) MapReadState(ctx context.Context, r *MapReadStateRequest) (*MapReadStateResult, error) {
	if _, err := e.mapChannel(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodMapReadState, r.Channel, err)
	}
	return keyed(ctx, e, MethodMapReadState, r.Channel, Keyed.MapReadState, r)
}

// MapReadStream executes a map_read_stream command.
func (e *Executor) MapReadStream(ctx context.Context, r *MapReadStreamRequest) (*MapReadStreamResult, error) {
	if _, err := e.mapChannel(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodMapReadStream, r.Channel, err)
	}
	return keyed(ctx, e, MethodMapReadStream, r.Channel, Keyed.MapReadStream, r)
}

// MapStats executes a map_stats command.
func (e *Executor) MapStats(ctx context.Context, r *MapStatsRequest) (*MapStatsResult, error) {
	if _, err := e.mapChannel(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodMapStats, r.Channel, err)
	}
	return keyed(ctx, e, MethodMapStats, r.Channel, Keyed.MapStats, r)
}

// MapClear executes a map_clear command.
func (e *Executor) MapClear(ctx context.Context, r *MapClearRequest) (*MapClearResult, error) {
	if _, err := e.mapChannel(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodMapClear, r.Channel, err)
	}
	return keyed(ctx, e, MethodMapClear, r.Channel, Keyed.MapClear, r)
}

// SharedPollPublish executes a shared_poll_publish command.
func (e *Executor) SharedPollPublish(ctx context.Context, r *SharedPollPublishRequest) (*SharedPollPublishResult, error) {
	switch {
	case r.Key == "":
		return nil, e.failed(ctx, MethodSharedPollPublish, r.Channel, errNoKey)
	case r.Version == 0:
		return nil, e.failed(ctx, MethodSharedPollPublish, r.Channel, errNoVersion)
	}
	ch, err := e.channel(r.Channel)
	if err != nil {
		return nil, e.failed(ctx, MethodSharedPollPublish, r.Channel, err)
	}
	if ch.Type != channels.SharedPoll {
		return nil, e.failed(ctx, MethodSharedPollPublish, r.Channel, errNotPoll)
	}
	if !ch.SharedPoll.PublishEnabled {
		return nil, e.failed(ctx, MethodSharedPollPublish, r.Channel, errPollOff)
	}
	checked := *r
	if checked.Data, err = payload(r.Data, r.B64Data); err != nil {
		return nil, e.failed(ctx, MethodSharedPollPublish, r.Channel, err)
	}
	checked.B64Data = ""
	return keyed(ctx, e, MethodSharedPollPublish, r.Channel, Keyed.SharedPollPublish, &checked)
}
