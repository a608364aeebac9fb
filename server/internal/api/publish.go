package api

import (
	"context"
	"encoding/base64"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// Publish executes a publish command.
func (e *Executor) Publish(ctx context.Context, r *PublishRequest) (*PublishResult, error) {
	b := e.newBatch()
	if err := b.add(0, r); err != nil {
		b.release()
		return nil, e.failed(ctx, MethodPublish, r.Channel, err)
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

// Broadcast executes a broadcast command. Channels fail one by one.
func (e *Executor) Broadcast(ctx context.Context, r *BroadcastRequest) (*BroadcastResult, error) {
	if len(r.Channels) == 0 {
		return nil, e.failed(ctx, MethodBroadcast, "", errNoChannels)
	}
	data, err := payload(r.Data, r.Options.orNone().B64Data)
	if err != nil {
		return nil, e.failed(ctx, MethodBroadcast, "", err)
	}
	b := e.newBatch()
	kinds := kinds{options: r.Options.orNone()}
	out := make([]PublishResponse, len(r.Channels))
	var results results
	done := func(i int, res PublishResult, err *Error) {
		if out[i].Error = err; err == nil {
			out[i].Result = results.copyOf(res, len(r.Channels))
		}
	}
	for i, ch := range r.Channels {
		err := e.mayName(ch)
		var k *kind
		if err == nil {
			k, err = kinds.of(b.channels, ch)
		}
		if err == nil {
			err = k.checkOnce(data)
		}
		if err != nil {
			out[i].Error = e.failed(ctx, MethodBroadcast, ch, err)
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

// kinds are the kinds of channels of publications with the same options.
type kinds struct {
	options *PublishOptions
	// first is the kind of the first channel, known all if there are several.
	first kind
	known map[*channels.Options]*kind
	last  *kind
}

// kind of the channels of a namespace.
type kind struct {
	channel channels.Channel
	publish gyro.PublishOptions
	// checked: refusal is the result of checkOnce.
	checked bool
	refusal error
}

func (s *kinds) of(resolver *channels.Resolver, name string) (*kind, error) {
	ch, err := named(resolver, name)
	switch {
	case err != nil:
		return nil, err
	case s.last == nil:
		s.first = kind{channel: ch, publish: s.options.in(ch)}
		s.last = &s.first
		return s.last, nil
	case s.last.channel.Options == ch.Options:
		return s.last, nil
	case s.known == nil:
		s.known = map[*channels.Options]*kind{s.first.channel.Options: &s.first}
	}
	k := s.known[ch.Options]
	if k == nil {
		k = &kind{channel: ch, publish: s.options.in(ch)}
		s.known[ch.Options] = k
	}
	s.last = k
	return k, nil
}

// check refuses a publication in a channel. Centrifugo also publishes in maps, which has no meaning.
func check(ch channels.Channel, data []byte) error {
	switch {
	case ch.Type != channels.Stream:
		return errNotStream
	case len(data) == 0 && ch.PublicationDataFormat != "binary":
		return errNoData
	}
	return ch.CheckData(data)
}

// checkOnce is check for data that is always the same.
func (k *kind) checkOnce(data []byte) error {
	if !k.checked {
		k.checked, k.refusal = true, check(k.channel, data)
	}
	return k.refusal
}

// in returns the options of a publication: o and the options of the namespace.
func (o *PublishOptions) in(ch channels.Channel) gyro.PublishOptions {
	p := channels.Publication(ch)
	p.IdempotencyKey, p.Version, p.VersionEpoch, p.Tags = o.IdempotencyKey, o.Version, o.VersionEpoch, o.Tags
	p.Delta = o.Delta || ch.DeltaPublish
	if p.SkipHistory = o.SkipHistory || !p.Kept(); p.SkipHistory {
		p.HistorySize, p.HistoryTTL = 0, 0
	}
	return p
}

func payload(data []byte, b64 string) ([]byte, error) {
	if b64 == "" {
		return data, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		return nil, errBase64
	}
	return decoded, nil
}
