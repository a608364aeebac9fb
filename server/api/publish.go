package api

import (
	"bytes"
	"context"
	"encoding/base64"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

// Publication is what publish and broadcast have in common.
type Publication struct {
	// Data is the payload; B64Data, if not empty, is its base64 and wins.
	Data    []byte
	B64Data string
	// SkipHistory delivers without adding to the channel's history.
	SkipHistory bool
	Tags        map[string]string
	// IdempotencyKey suppresses repeats for 300 s per channel.
	IdempotencyKey string
	// Delta asks for the difference to the previous publication.
	Delta bool
	// Version > 0 suppresses the publication unless it is newer than the last one.
	Version      uint64
	VersionEpoch string
}

// PublishRequest: publish into one channel (server-api.md 6.1).
type PublishRequest struct {
	Channel string
	Publication
}

// PublishResult is where the publication stands; zero without history.
type PublishResult struct {
	Offset uint64
	Epoch  string
}

// BroadcastRequest: publish the same into many channels (server-api.md 6.2).
type BroadcastRequest struct {
	Channels []string
	Publication
}

// BroadcastResult has one response per channel of the request, in its order.
type BroadcastResult struct {
	Responses []PublishResponse
}

// PublishResponse has an Error or a Result.
type PublishResponse struct {
	Error  *Error
	Result PublishResult
}

// Publish executes a publish command.
func (e *Executor) Publish(ctx context.Context, r *PublishRequest) (*PublishResult, error) {
	b := e.newBatch()
	if err := b.add(0, r); err != nil {
		b.release()
		return nil, err
	}
	res := new(PublishResult)
	var failure *Error
	b.flush(ctx, e, MethodPublish, func(_ int, p PublishResult, err *Error) { *res, failure = p, err })
	b.release()
	if failure != nil {
		return nil, failure
	}
	return res, nil
}

// Broadcast executes a broadcast command. A channel that fails does not affect
// the others.
func (e *Executor) Broadcast(ctx context.Context, r *BroadcastRequest) (*BroadcastResult, error) {
	if len(r.Channels) == 0 {
		return nil, ErrBadRequest
	}
	data, err := payload(r.Data, r.B64Data)
	if err != nil {
		return nil, err
	}
	b := e.newBatch()
	kinds := kinds{p: &r.Publication}
	out := make([]PublishResponse, len(r.Channels))
	done := func(i int, res PublishResult, err *Error) { out[i] = PublishResponse{err, res} }
	for i, ch := range r.Channels {
		k, err := kinds.of(b.channels, ch)
		if err == nil {
			err = k.judge(data)
		}
		if err != nil {
			out[i].Error = AsError(err)
			continue
		}
		if b.put(i, ch, data, &k.publish); b.full() {
			b.flush(ctx, e, MethodBroadcast, done)
		}
	}
	b.flush(ctx, e, MethodBroadcast, done)
	b.release()
	return &BroadcastResult{Responses: out}, nil
}

// kinds are the kinds of channels that like publications go to.
type kinds struct {
	// p is what the publications are like.
	p     *Publication
	known map[ChannelOptions]*kind
	// last is what the channel before was like.
	last *kind
}

// kind of the channels that have the same options.
type kind struct {
	channel ChannelOptions
	publish gyro.PublishOptions
	// judged tells that refusal is judge's answer.
	judged  bool
	refusal error
}

// of returns the kind of a channel.
func (s *kinds) of(channels Channels, ch string) (*kind, error) {
	o, err := optionsOf(channels, ch)
	if err != nil {
		return nil, err
	}
	k := s.last
	if k != nil && k.channel == o {
		return k, nil
	}
	if k = s.known[o]; k == nil {
		if s.known == nil {
			s.known = make(map[ChannelOptions]*kind, 1)
		}
		k = &kind{channel: o, publish: s.p.options(&o)}
		s.known[o] = k
	}
	s.last = k
	return k, nil
}

// check refuses a publication in such channels.
func (o *ChannelOptions) check(data []byte) error {
	// Ref does not look at the type here; publishing a stream publication into a
	// map channel has no meaning.
	if !o.stream() || !validData(o.PublicationDataFormat, data) {
		return ErrBadRequest
	}
	return nil
}

// judge is check for data that is always the same.
func (k *kind) judge(data []byte) error {
	if !k.judged {
		k.judged, k.refusal = true, k.channel.check(data)
	}
	return k.refusal
}

func (p *Publication) options(c *ChannelOptions) gyro.PublishOptions {
	o := gyro.PublishOptions{
		HistorySize: c.HistorySize, HistoryTTL: c.HistoryTTL, HistoryMetaTTL: c.HistoryMetaTTL,
		IdempotencyKey: p.IdempotencyKey, Version: p.Version, VersionEpoch: p.VersionEpoch,
		Tags: p.Tags, Delta: p.Delta || c.DeltaPublish,
	}
	if p.SkipHistory {
		o.HistorySize, o.HistoryTTL = 0, 0
	}
	return o
}

// payload resolves a pair of plain and base64 members (server-api.md 5.2).
func payload(data []byte, b64 string) ([]byte, error) {
	if b64 == "" {
		return data, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		return nil, ErrBadRequest
	}
	return decoded, nil
}

// validData checks a payload against a publication data format (server-api.md
// 5.3).
func validData(format string, data []byte) bool {
	switch format {
	case "json":
		return jsonx.Valid(data)
	case "json_object":
		// A valid JSON text that begins with a brace ends with its partner.
		return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && jsonx.Valid(data)
	case "binary":
		return true
	default:
		return len(data) > 0
	}
}
