package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

// maxConcurrent is the most channels of a broadcast or commands of a parallel
// batch that are in work at a time.
const maxConcurrent = 1024

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
	if r.Channel == "" {
		return nil, ErrBadRequest
	}
	data, err := payload(r.Data, r.B64Data)
	if err != nil {
		return nil, err
	}
	o, err := e.options(r.Channel)
	if err != nil {
		return nil, err
	}
	if !o.stream() || !validData(o.PublicationDataFormat, data) {
		return nil, ErrBadRequest
	}
	res, err := e.node.Publish(ctx, r.Channel, data, r.options(historyOf(&o)))
	if err != nil {
		return nil, e.failed(ctx, MethodPublish, r.Channel, err)
	}
	return &PublishResult{Offset: res.Position.Offset, Epoch: res.Position.Epoch}, nil
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
	b := broadcast{e: e, r: r, data: data, valid: make(map[string]bool), out: make([]PublishResponse, len(r.Channels))}
	for from := 0; from < len(r.Channels); from += maxConcurrent {
		b.run(ctx, from, min(from+maxConcurrent, len(r.Channels)))
	}
	return &BroadcastResult{Responses: b.out}, nil
}

// broadcast is one broadcast command in work.
type broadcast struct {
	e     *Executor
	r     *BroadcastRequest
	data  []byte
	valid map[string]bool // by publication data format
	out   []PublishResponse
}

// run publishes into the channels with index from to to. Those with the same
// options are handed to the node together.
func (b *broadcast) run(ctx context.Context, from, to int) {
	groups := make(map[historyOptions][]int, 1)
	for i := from; i < to; i++ {
		o, err := b.check(b.r.Channels[i])
		if err != nil {
			b.out[i].Error = AsError(err)
			continue
		}
		groups[historyOf(&o)] = append(groups[historyOf(&o)], i)
	}
	if len(groups) == 1 {
		for h, members := range groups {
			b.publish(ctx, h, members)
		}
		return
	}
	var wg sync.WaitGroup
	for h, members := range groups {
		wg.Go(func() { b.publish(ctx, h, members) })
	}
	wg.Wait()
}

func (b *broadcast) check(ch string) (ChannelOptions, error) {
	o, err := b.e.options(ch)
	if err != nil {
		return o, err
	}
	valid, known := b.valid[o.PublicationDataFormat]
	if !known {
		valid = validData(o.PublicationDataFormat, b.data)
		b.valid[o.PublicationDataFormat] = valid
	}
	// Ref does not look at the type here; publishing a stream publication into a
	// map channel has no meaning.
	if !valid || !o.stream() {
		return o, ErrBadRequest
	}
	return o, nil
}

func (b *broadcast) publish(ctx context.Context, h historyOptions, members []int) {
	channels := make([]string, len(members))
	for i, m := range members {
		channels[i] = b.r.Channels[m]
	}
	results := b.e.node.Broadcast(ctx, channels, b.data, b.r.options(h))
	for i, m := range members {
		switch {
		case i >= len(results):
			b.out[m].Error = ErrInternal
		case results[i].Err != nil:
			b.out[m].Error = AsError(b.e.failed(ctx, MethodBroadcast, channels[i], results[i].Err))
		default:
			p := results[i].Position
			b.out[m].Result = PublishResult{Offset: p.Offset, Epoch: p.Epoch}
		}
	}
}

// historyOptions are the channel options that shape a publication.
type historyOptions struct {
	size         int
	ttl, metaTTL time.Duration
	delta        bool
}

func historyOf(o *ChannelOptions) historyOptions {
	return historyOptions{o.HistorySize, o.HistoryTTL, o.HistoryMetaTTL, o.DeltaPublish}
}

func (p *Publication) options(h historyOptions) gyro.PublishOptions {
	o := gyro.PublishOptions{
		HistorySize: h.size, HistoryTTL: h.ttl, HistoryMetaTTL: h.metaTTL,
		IdempotencyKey: p.IdempotencyKey, Version: p.Version, VersionEpoch: p.VersionEpoch,
		Tags: p.Tags, Delta: p.Delta || h.delta,
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
