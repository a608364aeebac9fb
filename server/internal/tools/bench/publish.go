package bench

import (
	"context"
	"errors"
)

// Publish is a load of publications to channels without subscribers.
type Publish struct {
	Target
	Load
	Channels  int  // publications are spread over so many
	Broadcast bool // every message goes to all channels in one request; only over the API
}

// Run executes the scenario, as Fanout.Run.
func (p Publish) Run(ctx context.Context) (*Report, error) {
	err := errors.Join(
		p.Target.validate(!p.OverAPI), p.Load.validate(&p.Target),
		bounds("channels", p.Channels, 1, maxClients),
	)
	err = errors.Join(err, p.Load.ends())
	if p.Broadcast && (!p.OverAPI || p.Window != 1) {
		err = errors.Join(err, errors.New("broadcast: goes over the HTTP API only, with a window of 1"))
	}
	if p.OverAPI && p.Transport != "" {
		err = errors.Join(err, errors.New("transport: no client connects while all publications go over the HTTP API (--via api)"))
	}
	if err != nil {
		return nil, err
	}
	r, err := newRun(ctx, &p.Target, p.Channels, 0, p.Load.clients())
	if err != nil {
		return nil, err
	}
	p.attach(r)
	return r.execute("publish", p.steps)
}

func (p *Publish) attach(r *run) {
	if !p.Broadcast {
		p.Load.attach(r)
		return
	}
	for range p.Publishers {
		producer := r.newProducer(1, p.Rate/float64(p.Publishers))
		producer.broadcast = true
		producer.overAPI()
	}
}

func (p *Publish) steps(r *run, rep *Report) error {
	err := r.connectPublishers()
	if err == nil {
		rep.Publish, err = r.publish(&p.Load)
	}
	return err
}
