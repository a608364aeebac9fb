package queues

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/server/internal/api"
)

const maxBatch = 256

// run is one call of Process. Successive publications go to the node together, but never two of one channel or group: if
// one fails, the next one must not overtake it.
type run struct {
	p        *Processor
	ctx      context.Context
	messages []*Message // of batch
	batch    []api.Command
	channels set  // in batch
	groups   set  // in batch
	failed   bool // a message must be tried again
	stopped  set  // groups with a message that must be tried again
}

type set map[string]struct{}

func (s *set) add(key string) {
	if *s == nil {
		*s = make(set)
	}
	(*s)[key] = struct{}{}
}

func (s set) has(key string) bool {
	_, ok := s[key]
	return ok
}

func (r *run) waits(m *Message) bool { return r.failed && (r.p.cfg.Ordered || r.stopped.has(m.Group)) }

func (r *run) add(m *Message) {
	if r.waits(m) {
		return
	}
	method, request, err := r.p.decode(m)
	if err != nil {
		m.Outcome = Done
		if errors.Is(err, errSkipped) {
			r.p.log.Info("message skipped", "message", m.ID, "reason", err)
			return
		}
		m.err = err
		r.p.log.Error("message cannot be executed, it is not tried again", "message", m.ID, "error", err)
		return
	}
	publish, ok := request.(*api.PublishRequest)
	if !ok {
		r.flush()
		if !r.waits(m) {
			r.execute(m, method, request)
		}
		return
	}
	if r.channels.has(publish.Channel) || r.groups.has(m.Group) || len(r.batch) >= maxBatch {
		if r.flush(); r.waits(m) {
			return
		}
	}
	r.channels.add(publish.Channel)
	if m.Group != "" {
		r.groups.add(m.Group)
	}
	r.messages, r.batch = append(r.messages, m), append(r.batch, api.Command{Request: publish})
}

func (r *run) flush() {
	switch len(r.batch) {
	case 0:
		return
	case 1:
		r.execute(r.messages[0], api.MethodPublish, r.batch[0].Request)
	default:
		ctx := r.ctx
		var ends []func(error)
		if t := r.p.cfg.Tracer; t != nil {
			ctx, ends = t.BeginBatch(ctx, r.messages, r.batch)
		}
		begin := time.Now()
		res, err := r.p.cfg.Executor.Batch(ctx, &api.BatchRequest{Commands: r.batch})
		took := time.Since(begin)
		for i, m := range r.messages {
			var reply api.Result
			if err == nil {
				reply = res.Replies[i].Result
			}
			failure := err
			if refused, ok := reply.(*api.Error); ok {
				failure = refused
			}
			if ends != nil {
				ends[i](failure)
			}
			r.report(m, api.MethodPublish, took, reply, failure)
		}
	}
	clear(r.channels)
	clear(r.groups)
	r.messages, r.batch = r.messages[:0], r.batch[:0]
}

func (r *run) execute(m *Message, method api.Method, request api.Request) {
	ctx, end := r.ctx, func(error) {}
	if t := r.p.cfg.Tracer; t != nil {
		ctx, end = t.Begin(ctx, m, method, request)
	}
	begin := time.Now()
	res, err := r.p.cfg.Executor.Execute(ctx, request)
	end(err)
	took := time.Since(begin)
	r.report(m, method, took, res, err)
	api.Observed{By: r.p.cfg.Commands}.Called(r.p.cfg.Executor, request, took)
}

func (r *run) report(m *Message, method api.Method, took time.Duration, res api.Result, err error) {
	if o := r.p.cfg.Commands; o != nil {
		o.Executed(method, took, res, err)
	}
	if broadcast, ok := res.(*api.BroadcastResult); ok && err == nil {
		err = internal(broadcast)
	}
	m.Outcome = Done
	switch {
	case err == nil:
	case api.AsError(err).Code == api.ErrInternal.Code:
		m.Outcome, m.err, r.failed = Retry, fmt.Errorf("%s: %w", method, err), true
		if m.Group != "" {
			r.stopped.add(m.Group)
		}
	default:
		m.err = fmt.Errorf("%s: %w", method, err)
		r.p.log.Error("message is refused, it is not tried again", "message", m.ID, "method", method.String(), "error", err)
	}
}

func internal(b *api.BroadcastResult) error {
	for i := range b.Responses {
		if err := b.Responses[i].Error; err != nil && err.Code == api.ErrInternal.Code {
			return err
		}
	}
	return nil
}
