package api

import (
	"context"
	"sync"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

// UnmarshalRequest decodes the JSON of a request into r, which must be empty. It
// keeps nothing of data. Unknown members are ignored; errors name the position
// and what was expected there. See server-api.md section 3.1.
func UnmarshalRequest(data []byte, r Request) error {
	d := decoders.Get().(*jsonx.Decoder)
	*d = jsonx.NewDecoder(data)
	r.decode(d)
	err := d.End()
	*d = jsonx.Decoder{}
	decoders.Put(d)
	return err
}

// Decoders and writers escape to the heap, for they pass an interface.
var (
	decoders = sync.Pool{New: func() any { return new(jsonx.Decoder) }}
	writers  = sync.Pool{New: func() any { return new(jsonx.Writer) }}
)

func (*PublishRequest) Method() Method           { return MethodPublish }
func (*BroadcastRequest) Method() Method         { return MethodBroadcast }
func (*SubscribeRequest) Method() Method         { return MethodSubscribe }
func (*UnsubscribeRequest) Method() Method       { return MethodUnsubscribe }
func (*DisconnectRequest) Method() Method        { return MethodDisconnect }
func (*RefreshRequest) Method() Method           { return MethodRefresh }
func (*PresenceRequest) Method() Method          { return MethodPresence }
func (*PresenceStatsRequest) Method() Method     { return MethodPresenceStats }
func (*HistoryRequest) Method() Method           { return MethodHistory }
func (*HistoryRemoveRequest) Method() Method     { return MethodHistoryRemove }
func (*ChannelsRequest) Method() Method          { return MethodChannels }
func (*InfoRequest) Method() Method              { return MethodInfo }
func (*RPCRequest) Method() Method               { return MethodRPC }
func (*MapPublishRequest) Method() Method        { return MethodMapPublish }
func (*MapRemoveRequest) Method() Method         { return MethodMapRemove }
func (*MapReadStateRequest) Method() Method      { return MethodMapReadState }
func (*MapReadStreamRequest) Method() Method     { return MethodMapReadStream }
func (*MapStatsRequest) Method() Method          { return MethodMapStats }
func (*MapClearRequest) Method() Method          { return MethodMapClear }
func (*SharedPollPublishRequest) Method() Method { return MethodSharedPollPublish }
func (*BatchRequest) Method() Method             { return MethodBatch }

func (r *PublishRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Publish(ctx, r)
}
func (r *BroadcastRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Broadcast(ctx, r)
}
func (r *SubscribeRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Subscribe(ctx, r)
}
func (r *UnsubscribeRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Unsubscribe(ctx, r)
}
func (r *DisconnectRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Disconnect(ctx, r)
}
func (r *RefreshRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Refresh(ctx, r)
}
func (r *PresenceRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Presence(ctx, r)
}
func (r *PresenceStatsRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.PresenceStats(ctx, r)
}
func (r *HistoryRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.History(ctx, r)
}
func (r *HistoryRemoveRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.HistoryRemove(ctx, r)
}
func (r *ChannelsRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Channels(ctx, r)
}
func (r *InfoRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Info(ctx, r)
}
func (r *RPCRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.RPC(ctx, r)
}
func (r *MapPublishRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.MapPublish(ctx, r)
}
func (r *MapRemoveRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.MapRemove(ctx, r)
}
func (r *MapReadStateRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.MapReadState(ctx, r)
}
func (r *MapReadStreamRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.MapReadStream(ctx, r)
}
func (r *MapStatsRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.MapStats(ctx, r)
}
func (r *MapClearRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.MapClear(ctx, r)
}
func (r *SharedPollPublishRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.SharedPollPublish(ctx, r)
}
func (r *BatchRequest) execute(ctx context.Context, e *Executor) (Result, error) {
	return e.Batch(ctx, r)
}

func (r *PublishRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		if string(d.Name()) == "channel" {
			r.Channel = d.String()
			continue
		}
		r.member(d)
	}
}

func (r *BroadcastRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		if string(d.Name()) == "channels" {
			r.Channels = d.Strings()
			continue
		}
		r.member(d)
	}
}

// member decodes a member that publish and broadcast share.
func (p *Publication) member(d *jsonx.Decoder) {
	switch string(d.Name()) {
	case "data":
		p.Data = d.Raw()
	case "b64data":
		p.B64Data = d.String()
	case "skip_history":
		p.SkipHistory = d.Bool()
	case "tags":
		p.Tags = d.StringMap()
	case "idempotency_key":
		p.IdempotencyKey = d.String()
	case "delta":
		p.Delta = d.Bool()
	case "version":
		p.Version = d.Uint64()
	case "version_epoch":
		p.VersionEpoch = d.String()
	default:
		d.Skip()
	}
}

// member decodes a member that the commands on connections share. It ignores
// label_filter and all_users, which mean nothing in this edition of the API.
func (t *Target) member(d *jsonx.Decoder) {
	switch string(d.Name()) {
	case "user":
		t.User = d.String()
	case "client":
		t.Client = d.String()
	case "session":
		t.Session = d.String()
	default:
		d.Skip()
	}
}

func (r *SubscribeRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			r.Channel = d.String()
		case "expire_at":
			r.ExpireAt = d.Int64()
		case "info":
			r.Info = d.Raw()
		case "b64info":
			r.B64Info = d.String()
		case "data":
			r.Data = d.Raw()
		case "b64data":
			r.B64Data = d.String()
		case "recover_since":
			r.RecoverSince = decodePosition(d)
		case "override":
			r.Override = decodeOverride(d)
		default:
			r.member(d)
		}
	}
}

// decodePosition reads an object of offset and epoch; null is nil.
func decodePosition(d *jsonx.Decoder) *gyro.StreamPosition {
	if d.Null() {
		return nil
	}
	p := new(gyro.StreamPosition)
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "offset":
			p.Offset = d.Uint64()
		case "epoch":
			p.Epoch = d.String()
		default:
			d.Skip()
		}
	}
	return p
}

func decodeOverride(d *jsonx.Decoder) *SubscribeOverride {
	if d.Null() {
		return nil
	}
	o := new(SubscribeOverride)
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "presence":
			o.Presence = decodeBoolValue(d)
		case "join_leave":
			o.JoinLeave = decodeBoolValue(d)
		case "force_recovery":
			o.ForceRecovery = decodeBoolValue(d)
		case "force_positioning":
			o.ForcePositioning = decodeBoolValue(d)
		case "force_push_join_leave":
			o.ForcePushJoinLeave = decodeBoolValue(d)
		default:
			d.Skip()
		}
	}
	return o
}

// decodeBoolValue reads an object of one boolean; null is nil, {} is false.
func decodeBoolValue(d *jsonx.Decoder) *bool {
	if d.Null() {
		return nil
	}
	v := new(bool)
	for ok := d.Object(); ok; ok = d.NextMember() {
		if string(d.Name()) == "value" {
			*v = d.Bool()
			continue
		}
		d.Skip()
	}
	return v
}

func (r *UnsubscribeRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		if string(d.Name()) == "channel" {
			r.Channel = d.String()
			continue
		}
		r.member(d)
	}
}

func (r *DisconnectRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "whitelist":
			r.Whitelist = d.Strings()
		case "disconnect":
			r.Disconnect = decodeDisconnect(d)
		default:
			r.member(d)
		}
	}
}

func decodeDisconnect(d *jsonx.Decoder) *Disconnect {
	if d.Null() {
		return nil
	}
	v := new(Disconnect)
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "code":
			v.Code = d.Uint32()
		case "reason":
			v.Reason = d.String()
		default:
			d.Skip()
		}
	}
	return v
}

func (r *RefreshRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "expired":
			r.Expired = d.Bool()
		case "expire_at":
			r.ExpireAt = d.Int64()
		case "info":
			r.Info = d.Raw()
		default:
			r.member(d)
		}
	}
}

// decodeOnly reads an object of which one string member matters.
func decodeOnly(d *jsonx.Decoder, name string, dst *string) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		if string(d.Name()) == name {
			*dst = d.String()
			continue
		}
		d.Skip()
	}
}

func (r *PresenceRequest) decode(d *jsonx.Decoder)      { decodeOnly(d, "channel", &r.Channel) }
func (r *PresenceStatsRequest) decode(d *jsonx.Decoder) { decodeOnly(d, "channel", &r.Channel) }
func (r *HistoryRemoveRequest) decode(d *jsonx.Decoder) { decodeOnly(d, "channel", &r.Channel) }
func (r *ChannelsRequest) decode(d *jsonx.Decoder)      { decodeOnly(d, "pattern", &r.Pattern) }
func (r *MapStatsRequest) decode(d *jsonx.Decoder)      { decodeOnly(d, "channel", &r.Channel) }
func (r *MapClearRequest) decode(d *jsonx.Decoder)      { decodeOnly(d, "channel", &r.Channel) }

func (r *InfoRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		d.Skip()
	}
}

func (r *HistoryRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			r.Channel = d.String()
		case "limit":
			r.Limit = d.Int32()
		case "since":
			r.Since = decodePosition(d)
		case "reverse":
			r.Reverse = d.Bool()
		default:
			d.Skip()
		}
	}
}

func (r *RPCRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "method":
			r.Name = d.String()
		case "params":
			r.Params = d.Raw()
		default:
			d.Skip()
		}
	}
}
