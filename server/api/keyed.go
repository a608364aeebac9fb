package api

import (
	"context"

	"github.com/gyrohq/gyro"
)

// Keyed executes the commands of map and shared poll channels, after the request
// has passed the checks of server-api.md 6.14 and 6.15; B64Data is then decoded
// into Data. Errors are mapped like those of a node. The methods may be called
// from any goroutine.
type Keyed interface {
	// MapPublish gets Delta with the namespace's delta_publish applied.
	MapPublish(ctx context.Context, r *MapPublishRequest) (*MapUpdateResult, error)
	MapRemove(ctx context.Context, r *MapRemoveRequest) (*MapUpdateResult, error)
	MapReadState(ctx context.Context, r *MapReadStateRequest) (*MapReadStateResult, error)
	MapReadStream(ctx context.Context, r *MapReadStreamRequest) (*MapReadStreamResult, error)
	MapStats(ctx context.Context, r *MapStatsRequest) (*MapStatsResult, error)
	MapClear(ctx context.Context, r *MapClearRequest) error
	SharedPollPublish(ctx context.Context, r *SharedPollPublishRequest) error
}

// MapPublishRequest writes one key.
type MapPublishRequest struct {
	Channel string
	Key     string
	// Data is the value; B64Data, if not empty, is its base64 and wins.
	Data           []byte
	B64Data        string
	Tags           map[string]string
	IdempotencyKey string
	Delta          bool
	Version        uint64
	VersionEpoch   string
	// KeyMode: "" always, "if_new", "if_exists".
	KeyMode string
}

// MapRemoveRequest deletes one key.
type MapRemoveRequest struct {
	Channel        string
	Key            string
	IdempotencyKey string
}

// MapUpdateResult is the outcome of a write or a removal.
type MapUpdateResult struct {
	Offset uint64
	Epoch  string
	// Suppressed: nothing changed, for the reason given.
	Suppressed     bool
	SuppressReason string
}

// MapReadStateRequest reads keys.
type MapReadStateRequest struct {
	Channel string
	// Cursor of the previous page.
	Cursor string
	// Limit: 0 for the position only, < 0 for all.
	Limit int32
	// Key, if not empty, is the only one to read.
	Key string
	Asc bool
	// Revision, if not nil, must be of the current epoch.
	Revision *gyro.StreamPosition
}

// MapReadStateResult is one page of the state.
type MapReadStateResult struct {
	// Entries are publications with Key, and Score, Removed and Time where known.
	Entries []*gyro.Publication
	Offset  uint64
	Epoch   string
	// Cursor of the next page; empty on the last one.
	Cursor string
}

// MapReadStreamRequest reads the stream of changes.
type MapReadStreamRequest struct {
	Channel string
	// Since is nil to start at the beginning.
	Since   *gyro.StreamPosition
	Limit   int32
	Reverse bool
}

// MapReadStreamResult is a part of the stream and the position of its top.
type MapReadStreamResult struct {
	Entries []*gyro.Publication
	Offset  uint64
	Epoch   string
}

// MapStatsRequest asks for the number of keys.
type MapStatsRequest struct{ Channel string }

// MapStatsResult has the number of keys.
type MapStatsResult struct{ NumKeys int32 }

// MapClearRequest deletes state and stream.
type MapClearRequest struct{ Channel string }

// SharedPollPublishRequest pushes a fresh value of one shared poll key.
type SharedPollPublishRequest struct {
	Channel string
	Key     string
	// Data is the value; B64Data, if not empty, is its base64 and wins.
	Data    []byte
	B64Data string
	// Version is at least 1.
	Version uint64
	Epoch   string
}

// notAvailable stands in for a missing Keyed.
type notAvailable struct{}

func (notAvailable) MapPublish(context.Context, *MapPublishRequest) (*MapUpdateResult, error) {
	return nil, ErrNotAvailable
}

func (notAvailable) MapRemove(context.Context, *MapRemoveRequest) (*MapUpdateResult, error) {
	return nil, ErrNotAvailable
}

func (notAvailable) MapReadState(context.Context, *MapReadStateRequest) (*MapReadStateResult, error) {
	return nil, ErrNotAvailable
}

func (notAvailable) MapReadStream(context.Context, *MapReadStreamRequest) (*MapReadStreamResult, error) {
	return nil, ErrNotAvailable
}

func (notAvailable) MapStats(context.Context, *MapStatsRequest) (*MapStatsResult, error) {
	return nil, ErrNotAvailable
}

func (notAvailable) MapClear(context.Context, *MapClearRequest) error { return ErrNotAvailable }

func (notAvailable) SharedPollPublish(context.Context, *SharedPollPublishRequest) error {
	return ErrNotAvailable
}

// mapOptions resolves a channel that must be of a map type.
func (e *Executor) mapOptions(ch string) (ChannelOptions, error) {
	o, err := e.options(ch)
	if err == nil && !o.keyed() {
		err = ErrBadRequest
	}
	return o, err
}

// keyedResult maps the error of a Keyed method.
func keyedResult[R any](ctx context.Context, e *Executor, m Method, ch string, res *R, err error) (*R, error) {
	if err != nil {
		return nil, e.failed(ctx, m, ch, err)
	}
	return res, nil
}

// MapPublish executes a map_publish command.
func (e *Executor) MapPublish(ctx context.Context, r *MapPublishRequest) (*MapUpdateResult, error) {
	if r.Key == "" {
		return nil, ErrBadRequest
	}
	o, err := e.mapOptions(r.Channel)
	if err != nil {
		return nil, err
	}
	if r.KeyMode != "" && r.KeyMode != "if_new" && r.KeyMode != "if_exists" {
		return nil, ErrBadRequest
	}
	checked := *r
	if checked.Data, err = payload(r.Data, r.B64Data); err != nil {
		return nil, err
	}
	checked.B64Data = ""
	checked.Delta = r.Delta || o.DeltaPublish
	res, err := e.keyed.MapPublish(ctx, &checked)
	return keyedResult(ctx, e, MethodMapPublish, r.Channel, res, err)
}

// MapRemove executes a map_remove command.
func (e *Executor) MapRemove(ctx context.Context, r *MapRemoveRequest) (*MapUpdateResult, error) {
	if r.Key == "" {
		return nil, ErrBadRequest
	}
	if _, err := e.mapOptions(r.Channel); err != nil {
		return nil, err
	}
	res, err := e.keyed.MapRemove(ctx, r)
	return keyedResult(ctx, e, MethodMapRemove, r.Channel, res, err)
}

// MapReadState executes a map_read_state command.
func (e *Executor) MapReadState(ctx context.Context, r *MapReadStateRequest) (*MapReadStateResult, error) {
	if _, err := e.mapOptions(r.Channel); err != nil {
		return nil, err
	}
	res, err := e.keyed.MapReadState(ctx, r)
	return keyedResult(ctx, e, MethodMapReadState, r.Channel, res, err)
}

// MapReadStream executes a map_read_stream command.
func (e *Executor) MapReadStream(ctx context.Context, r *MapReadStreamRequest) (*MapReadStreamResult, error) {
	if _, err := e.mapOptions(r.Channel); err != nil {
		return nil, err
	}
	res, err := e.keyed.MapReadStream(ctx, r)
	return keyedResult(ctx, e, MethodMapReadStream, r.Channel, res, err)
}

// MapStats executes a map_stats command.
func (e *Executor) MapStats(ctx context.Context, r *MapStatsRequest) (*MapStatsResult, error) {
	if _, err := e.mapOptions(r.Channel); err != nil {
		return nil, err
	}
	res, err := e.keyed.MapStats(ctx, r)
	return keyedResult(ctx, e, MethodMapStats, r.Channel, res, err)
}

// MapClear executes a map_clear command.
func (e *Executor) MapClear(ctx context.Context, r *MapClearRequest) (*EmptyResult, error) {
	if _, err := e.mapOptions(r.Channel); err != nil {
		return nil, err
	}
	err := e.keyed.MapClear(ctx, r)
	return keyedResult(ctx, e, MethodMapClear, r.Channel, &EmptyResult{}, err)
}

// SharedPollPublish executes a shared_poll_publish command.
func (e *Executor) SharedPollPublish(ctx context.Context, r *SharedPollPublishRequest) (*EmptyResult, error) {
	if r.Key == "" || r.Version == 0 {
		return nil, ErrBadRequest
	}
	o, err := e.options(r.Channel)
	if err != nil {
		return nil, err
	}
	if o.SubscriptionType != "shared_poll" {
		return nil, ErrBadRequest
	}
	if !o.SharedPollPublish {
		return nil, ErrNotAvailable
	}
	checked := *r
	if checked.Data, err = payload(r.Data, r.B64Data); err != nil {
		return nil, err
	}
	checked.B64Data = ""
	err = e.keyed.SharedPollPublish(ctx, &checked)
	return keyedResult(ctx, e, MethodSharedPollPublish, r.Channel, &EmptyResult{}, err)
}
