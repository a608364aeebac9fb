package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
)

const (
	maxHeld = 100_000
	page    = 1000
)

// Tail prints the last publications of channels, and then new publications.
type Tail struct {
	Remote
	Channels []string
	// Lines are how many publications of each channel are printed first.
	Lines int
	Count int
	// OverAPI asks the server API for history every Interval.
	OverAPI  bool
	Interval time.Duration
	Kind
}

// Run prints until ctx ends, Count is reached, or the server refuses.
func (t *Tail) Run(ctx context.Context, out *Output) error {
	if err := t.check(t.Channels); err != nil {
		return err
	}
	if t.Type != Stream && t.OverAPI {
		return Usage("via: only streams have a history to be read over the API")
	}
	f := &follower{t: t, printer: *newPrinter(out, t.Channels, t.Kind, t.Count), streams: make(map[string]*stream)}
	for _, name := range t.Channels {
		f.streams[name] = &stream{}
	}
	if t.OverAPI {
		api, err := t.Caller()
		if err != nil {
			return err
		}
		return done(f.poll(ctx, api))
	}
	return done(f.follow(ctx))
}

type follower struct {
	t       *Tail
	mu      sync.Mutex // guards the fields below, and orders the output
	printer printer
	streams map[string]*stream
}

type stream struct {
	begun bool                 // its history was asked for, or its entries were printed
	live  bool                 // its history was printed
	held  []client.Publication // came before the history was printed
	last  uint64               // offset of the last publication that was printed
	epoch string
}

// follow connects as a client. It reads the history of a channel once the client is subscribed, and holds publications
// that come meanwhile: it misses none, and prints none twice.
func (f *follower) follow(ctx context.Context) error {
	c, subs, err := f.t.subscriptions(f.t.Channels, f.t.Kind, false, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel(nil)
	return f.t.follow(ctx, c, subs, func(e client.Event) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch e := e.(type) {
		case client.StateEvent:
			return f.state(e)
		case client.PublicationEvent:
			if f.t.Type == Stream {
				return f.published(&e.Publication)
			}
		case client.SubscribedEvent:
			if s := f.streams[e.Channel]; f.t.Type == Stream && f.subscribed(s, e) {
				reading.Go(func() {
					if err := f.history(ctx, c, e.Channel); err != nil {
						cancel(err)
					}
				})
			}
		}
		return f.printer.event(e)
	})
}

// subscribed reports whether the history of the channel is to be read.
func (f *follower) subscribed(s *stream, e client.SubscribedEvent) bool {
	if s.epoch != e.Position.Epoch {
		s.epoch, s.last = e.Position.Epoch, 0
	}
	first := !s.begun
	s.begun = true
	if f.t.Lines <= 0 {
		s.live = true
	}
	return first && !s.live
}

// state prints entries in the order of their changes, of the first entries only the last changed ones.
func (f *follower) state(e client.StateEvent) error {
	s := f.streams[e.Channel]
	e.Entries = slices.Clone(e.Entries)
	slices.SortStableFunc(e.Entries, func(a, b client.Publication) int { return cmp.Compare(a.Offset, b.Offset) })
	if !s.begun {
		e.Entries = e.Entries[max(0, len(e.Entries)-f.t.Lines):]
	}
	s.begun = true
	return f.printer.event(e)
}

func (f *follower) published(pub *client.Publication) error {
	s := f.streams[pub.Channel]
	switch {
	case s == nil: // the subscription is one to a pattern
	case !s.live && len(s.held) >= maxHeld:
		return fmt.Errorf("%s: %d publications came before the history", pub.Channel, maxHeld)
	case !s.live:
		s.held = append(s.held, *pub)
		return nil
	case pub.Offset > 0 && pub.Offset <= s.last:
		return nil
	case pub.Offset > 0:
		s.last = pub.Offset
	}
	return f.printer.publication("publication", pub)
}

// history prints the last publications of a channel and the held ones.
func (f *follower) history(ctx context.Context, c *client.Client, ch string) error {
	pubs, err := f.read(ctx, c, ch)
	if err != nil {
		var refused *client.Error
		var failed *apicall.Error
		if !(errors.As(err, &refused) && refused.Code >= minCode) && !errors.As(err, &failed) {
			return fmt.Errorf("history of %q: %w", ch, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.printer.out.message("%s: its history cannot be read (%v): only what is new follows", ch, err)
	}
	s := f.streams[ch]
	s.live = true
	held := s.held
	s.held = nil
	for i := range pubs {
		if err := f.published(&pubs[len(pubs)-1-i]); err != nil {
			return err
		}
	}
	for i := range held {
		if err := f.published(&held[i]); err != nil {
			return err
		}
	}
	return nil
}

// read returns the last publications, the newest first: over the server API if there is a key for it, else as the
// client.
func (f *follower) read(ctx context.Context, c *client.Client, ch string) ([]client.Publication, error) {
	if f.t.APIKey != "" {
		api, err := f.t.Caller()
		if err != nil {
			return nil, err
		}
		res, err := history(ctx, api, historyRequest{Channel: ch, Limit: f.t.Lines, Reverse: true})
		return res.publications(ch), err
	}
	h, err := c.History(ctx, ch, client.HistoryOptions{Limit: f.t.Lines, Reverse: true})
	return h.Publications, err
}

type historyRequest struct {
	Channel string    `json:"channel"`
	Limit   int       `json:"limit"`
	Reverse bool      `json:"reverse,omitempty"`
	Since   *position `json:"since,omitempty"`
}

type position struct {
	Offset uint64 `json:"offset"`
	Epoch  string `json:"epoch"`
}

type historyResult struct {
	Publications []struct {
		Data   json.RawMessage   `json:"data"`
		Offset uint64            `json:"offset"`
		Tags   map[string]string `json:"tags"`
		Info   *struct {
			User     string          `json:"user"`
			Client   string          `json:"client"`
			ConnInfo json.RawMessage `json:"conn_info"`
			ChanInfo json.RawMessage `json:"chan_info"`
		} `json:"info"`
	} `json:"publications"`
	Offset uint64 `json:"offset"`
	Epoch  string `json:"epoch"`
}

func history(ctx context.Context, api *apicall.Caller, r historyRequest) (res historyResult, err error) {
	return res, api.Call(ctx, "history", r, &res)
}

func (r *historyResult) publications(ch string) []client.Publication {
	out := make([]client.Publication, len(r.Publications))
	for i, p := range r.Publications {
		out[i] = client.Publication{Channel: ch, Data: p.Data, Offset: p.Offset, Tags: p.Tags}
		if p.Info != nil {
			out[i].Info = &client.ClientInfo{User: p.Info.User, Client: p.Info.Client, ConnInfo: p.Info.ConnInfo, ChanInfo: p.Info.ChanInfo}
		}
	}
	return out
}

// The position is of another epoch.
const unrecoverable = 112

func (f *follower) poll(ctx context.Context, api *apicall.Caller) error {
	for _, ch := range f.t.Channels {
		res, err := history(ctx, api, historyRequest{Channel: ch, Limit: f.t.Lines, Reverse: true})
		if err != nil {
			return fmt.Errorf("%q: %w", ch, err)
		}
		s, pubs := f.streams[ch], res.publications(ch)
		s.live, s.epoch = true, res.Epoch
		for i := range pubs {
			if err := f.published(&pubs[len(pubs)-1-i]); err != nil {
				return err
			}
		}
		s.last = res.Offset
	}
	for {
		for _, ch := range f.t.Channels {
			if err := f.news(ctx, api, ch, f.streams[ch]); err != nil {
				return err
			}
		}
		select {
		case <-time.After(f.t.Interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *follower) news(ctx context.Context, api *apicall.Caller, ch string, s *stream) error {
	for {
		res, err := history(ctx, api, historyRequest{Channel: ch, Limit: page, Since: &position{s.last, s.epoch}})
		var failed *apicall.Error
		if errors.As(err, &failed) && failed.Code == unrecoverable {
			f.printer.out.message("%s: the stream has begun anew; publications may be missing", ch)
			s.last, s.epoch = 0, ""
			if res, err = history(ctx, api, historyRequest{Channel: ch, Limit: page}); err == nil {
				s.epoch = res.Epoch
			}
		}
		if err != nil {
			return fmt.Errorf("%q: %w", ch, err)
		}
		pubs := res.publications(ch)
		if len(pubs) > 0 && s.last > 0 && pubs[0].Offset > s.last+1 {
			f.printer.out.message("%s: %d publications have left the history before they were read", ch, pubs[0].Offset-s.last-1)
		}
		for i := range pubs {
			if err := f.published(&pubs[i]); err != nil {
				return err
			}
		}
		if len(pubs) < page {
			s.last = max(s.last, res.Offset)
			return nil
		}
	}
}
