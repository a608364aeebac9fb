// Package metered counts for an observer what a node does with its engines.
package metered

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/observe"
)

// Broker returns b for all but Subscribe, Unsubscribe and the reads for clients: see Streams.
// It counts the publications, joins and leaves in both directions, removals of history, and
// all reads as those of tops.
func Broker(b broker.Broker, t *observe.Totals) broker.Broker { return &metered{b, t} }

type metered struct {
	broker.Broker
	totals *observe.Totals
}

func (m *metered) Describe() broker.Traits {
	traits := m.Broker.Describe()
	if publish := traits.Batch; publish != nil {
		traits.Batch = func(ctx context.Context, batch []broker.BatchItem) {
			publish(ctx, batch)
			accepted := 0
			for i := range batch {
				if batch[i].Err == nil {
					accepted++
				}
			}
			m.totals.AddSent(observe.EventPublication, accepted)
		}
	}
	if read := traits.Positions; read != nil {
		traits.Positions = func(ctx context.Context, channels []string) []broker.PositionResult {
			m.totals.AddAction(observe.ActionHistoryStreamTop, len(channels))
			return read(ctx, channels)
		}
	}
	return traits
}

func (m *metered) Run(h broker.EventHandler) error {
	return m.Broker.Run(&handler{h, m.totals})
}

// sent counts an event that the broker has accepted, unless err says otherwise.
func (m *metered) sent(e observe.Event, err error) error {
	if err == nil {
		m.totals.AddSent(e, 1)
	}
	return err
}

func (m *metered) Publish(ctx context.Context, ch string, pub *channel.Publication, o broker.PublishOptions) (broker.PublishResult, error) {
	r, err := m.Broker.Publish(ctx, ch, pub, o)
	return r, m.sent(observe.EventPublication, err)
}

func (m *metered) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return m.sent(observe.EventJoin, m.Broker.PublishJoin(ctx, ch, info))
}

func (m *metered) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return m.sent(observe.EventLeave, m.Broker.PublishLeave(ctx, ch, info))
}

func (m *metered) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	m.totals.AddAction(observe.ActionHistoryStreamTop, 1)
	return m.Broker.History(ctx, ch, f)
}

func (m *metered) RemoveHistory(ctx context.Context, ch string) error {
	m.totals.AddAction(observe.ActionHistoryRemove, 1)
	return m.Broker.RemoveHistory(ctx, ch)
}

// handler counts the events of a broker.
type handler struct {
	broker.EventHandler
	totals *observe.Totals
}

func (h *handler) HandlePublication(ch string, e broker.PublicationEvent) {
	h.totals.AddReceived(event(e.Pub))
	h.EventHandler.HandlePublication(ch, e)
}

func (h *handler) HandleJoin(ch string, info *channel.ClientInfo) {
	h.totals.AddReceived(observe.EventJoin)
	h.EventHandler.HandleJoin(ch, info)
}

func (h *handler) HandleLeave(ch string, info *channel.ClientInfo) {
	h.totals.AddReceived(observe.EventLeave)
	h.EventHandler.HandleLeave(ch, info)
}

// Streams returns b for subscriptions. It counts Subscribe and Unsubscribe.
func Streams(b broker.Broker, t *observe.Totals) broker.Broker { return &streams{b, t} }

type streams struct {
	broker.Broker
	totals *observe.Totals
}

func (s *streams) Subscribe(ctx context.Context, channels ...string) error {
	s.totals.AddAction(observe.ActionBrokerSubscribe, len(channels))
	return s.Broker.Subscribe(ctx, channels...)
}

func (s *streams) Unsubscribe(ctx context.Context, channels ...string) error {
	s.totals.AddAction(observe.ActionBrokerUnsubscribe, len(channels))
	return s.Broker.Unsubscribe(ctx, channels...)
}

// Presence returns p, which counts all calls.
func Presence(p broker.PresenceManager, t *observe.Totals) broker.PresenceManager {
	return &presence{p, t}
}

type presence struct {
	broker.PresenceManager
	totals *observe.Totals
}

func (p *presence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	p.totals.AddAction(observe.ActionAddPresence, 1)
	return p.PresenceManager.Add(ctx, ch, info)
}

func (p *presence) Remove(ctx context.Context, ch, client, user string) error {
	p.totals.AddAction(observe.ActionRemovePresence, 1)
	return p.PresenceManager.Remove(ctx, ch, client, user)
}

func (p *presence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	p.totals.AddAction(observe.ActionPresence, 1)
	return p.PresenceManager.Presence(ctx, ch)
}

func (p *presence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	p.totals.AddAction(observe.ActionPresenceStats, 1)
	return p.PresenceManager.Stats(ctx, ch)
}

// Controller returns c, which counts the control messages in both directions, unless c or t is nil.
func Controller(c broker.Controller, t *observe.Totals) broker.Controller {
	if c == nil || t == nil {
		return c
	}
	return &controller{c, t}
}

type controller struct {
	broker.Controller
	totals *observe.Totals
}

func (c *controller) RunControl(node string, handle func(data []byte)) error {
	return c.Controller.RunControl(node, func(data []byte) {
		c.totals.AddReceived(observe.EventControl)
		handle(data)
	})
}

func (c *controller) PublishControl(ctx context.Context, node string, data []byte) error {
	err := c.Controller.PublishControl(ctx, node, data)
	if err == nil {
		c.totals.AddSent(observe.EventControl, 1)
	}
	return err
}
