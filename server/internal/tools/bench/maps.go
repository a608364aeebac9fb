package bench

import (
	"fmt"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/account"
)

const (
	mapType     = 1
	phaseStream = 1
	phaseState  = 2
)

const keysOfRequest = 1000

// key returns the key that the nth publication of a producer changes; "" in streams.
func (r *run) key(n uint64) string {
	if r.target.Keys == 0 {
		return ""
	}
	return fmt.Sprintf("k-%d", n%uint64(r.target.Keys))
}

// fill sets the entries of all maps over the API. Their payloads are of no run, so they do not count.
func (r *run) fill() error {
	if r.target.Keys == 0 {
		return nil
	}
	r.enter("setting entries")
	p := &producer{run: r, latencies: shared{h: newHistogram()}}
	p.overAPI()
	payload := account.AppendPayload(nil, account.Stamp{Run: r.id + 1}, r.target.Size)
	items := make([]item, 0, keysOfRequest)
	for _, name := range r.channels {
		for k := range r.target.Keys {
			items = append(items, item{name, r.key(uint64(k)), payload})
			if len(items) < keysOfRequest && k+1 < r.target.Keys {
				continue
			}
			if err := p.sender.send(r.ctx, items); err != nil {
				return err
			}
			items = items[:0]
		}
	}
	return nil
}

// nextPage returns the command that goes on catching up with a map; nil if the client is live.
func (c *client) nextPage(res *protocol.SubscribeResult) *protocol.Command {
	if res == nil || res.Phase == 0 {
		return nil
	}
	req := &protocol.SubscribeRequest{
		Channel: c.run.channels[c.channel], Type: mapType, Phase: phaseState, Limit: int32(c.run.target.Page),
		Cursor: res.Cursor, Offset: res.Offset, Epoch: res.Epoch,
	}
	if res.Cursor == "" {
		req.Phase = phaseStream
	}
	return &protocol.Command{ID: subscribeID, Subscribe: req}
}
