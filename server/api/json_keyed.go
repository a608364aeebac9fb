package api

import (
	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

// Members of the schema that this edition of the API ignores (stream_data,
// b64stream_data, score) are unknown members here.
func (r *MapPublishRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			r.Channel = d.String()
		case "key":
			r.Key = d.String()
		case "data":
			r.Data = d.Raw()
		case "b64data":
			r.B64Data = d.String()
		case "tags":
			r.Tags = d.StringMap()
		case "idempotency_key":
			r.IdempotencyKey = d.String()
		case "delta":
			r.Delta = d.Bool()
		case "version":
			r.Version = d.Uint64()
		case "version_epoch":
			r.VersionEpoch = d.String()
		case "key_mode":
			r.KeyMode = d.String()
		default:
			d.Skip()
		}
	}
}

func (r *MapRemoveRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			r.Channel = d.String()
		case "key":
			r.Key = d.String()
		case "idempotency_key":
			r.IdempotencyKey = d.String()
		default:
			d.Skip()
		}
	}
}

func (r *MapReadStateRequest) decode(d *jsonx.Decoder) {
	var rev gyro.StreamPosition
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			r.Channel = d.String()
		case "cursor":
			r.Cursor = d.String()
		case "limit":
			r.Limit = d.Int32()
		case "key":
			r.Key = d.String()
		case "asc":
			r.Asc = d.Bool()
		case "revision_offset":
			rev.Offset = d.Uint64()
		case "revision_epoch":
			rev.Epoch = d.String()
		default:
			d.Skip()
		}
	}
	r.Revision = ifSet(rev)
}

func (r *MapReadStreamRequest) decode(d *jsonx.Decoder) {
	var since gyro.StreamPosition
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			r.Channel = d.String()
		case "since_offset":
			since.Offset = d.Uint64()
		case "since_epoch":
			since.Epoch = d.String()
		case "limit":
			r.Limit = d.Int32()
		case "reverse":
			r.Reverse = d.Bool()
		default:
			d.Skip()
		}
	}
	r.Since = ifSet(since)
}

// ifSet returns nil for a position of which neither part was given.
func ifSet(p gyro.StreamPosition) *gyro.StreamPosition {
	if p == (gyro.StreamPosition{}) {
		return nil
	}
	return &p
}

func (r *SharedPollPublishRequest) decode(d *jsonx.Decoder) {
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			r.Channel = d.String()
		case "key":
			r.Key = d.String()
		case "data":
			r.Data = d.Raw()
		case "b64data":
			r.B64Data = d.String()
		case "version":
			r.Version = d.Uint64()
		case "epoch":
			r.Epoch = d.String()
		default:
			d.Skip()
		}
	}
}

func (r *MapUpdateResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.UintMember("offset", r.Offset)
	w.StringMember("epoch", r.Epoch)
	w.TrueMember("suppressed", r.Suppressed)
	w.StringMember("suppress_reason", r.SuppressReason)
	w.End('}')
}

func (r *MapReadStateResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	encodeEntries(w, r.Entries)
	w.UintMember("offset", r.Offset)
	w.StringMember("epoch", r.Epoch)
	w.StringMember("cursor", r.Cursor)
	w.End('}')
}

func (r *MapReadStreamResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	encodeEntries(w, r.Entries)
	w.UintMember("offset", r.Offset)
	w.StringMember("epoch", r.Epoch)
	w.End('}')
}

func encodeEntries(w *jsonx.Writer, entries []*gyro.Publication) {
	if len(entries) == 0 {
		return
	}
	w.Name("entries")
	w.Begin('[')
	for _, e := range entries {
		w.Element()
		w.Begin('{')
		w.StringMember("key", e.Key)
		w.RawMember("data", e.Data)
		w.MapMember("tags", e.Tags)
		w.UintMember("offset", e.Offset)
		w.IntMember("score", e.Score)
		w.TrueMember("removed", e.Removed)
		w.IntMember("time", e.Time)
		w.End('}')
	}
	w.End(']')
}

func (r *MapStatsResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.IntMember("num_keys", int64(r.NumKeys))
	w.End('}')
}
