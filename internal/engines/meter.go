package engines

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/observe"
)

// Meter counts for an observer how a node uses its engines. A nil Meter counts nothing.
type Meter struct {
	totals    *observe.Totals
	namespace func(ch string) string // nil: all channels have the namespace ""
}

// NewMeter returns nil if the observer has no Totals.
func NewMeter(o *observe.Observer) *Meter {
	if o.Totals == nil {
		return nil
	}
	return &Meter{o.Totals, o.Namespace}
}

func (m *Meter) of(ch string) string {
	if m.namespace == nil || ch == "" {
		return ""
	}
	return m.namespace(ch)
}

// Action counts n actions in a channel; ch is empty for actions that concern no channel.
func (m *Meter) Action(a observe.Action, ch string, n int) {
	if m != nil {
		m.totals.AddAction(a, m.of(ch), n)
	}
}

func (m *Meter) actions(a observe.Action, channels []string) {
	if m.namespace == nil {
		m.totals.AddAction(a, "", len(channels))
		return
	}
	for _, ch := range channels {
		m.totals.AddAction(a, m.of(ch), 1)
	}
}

func (m *Meter) sent(e observe.Event, ch string) { m.totals.AddSent(e, m.of(ch), 1) }

func (m *Meter) received(e observe.Event, ch string) { m.totals.AddReceived(e, m.of(ch)) }

func (m *Meter) suppressed(e observe.Event, ch string, reason channel.SuppressReason) {
	if reason != "" {
		m.totals.AddSuppressed(observe.Suppressed{Event: e, Reason: reason, Namespace: m.of(ch)})
	}
}

func (m *Meter) batch(items []broker.BatchItem) {
	accepted := 0
	for i := range items {
		it := &items[i]
		if it.Err != nil {
			continue
		}
		m.suppressed(observe.EventPublication, it.Channel, it.Result.Suppressed)
		if m.namespace == nil {
			accepted++
		} else {
			m.sent(observe.EventPublication, it.Channel)
		}
	}
	if accepted > 0 {
		m.totals.AddSent(observe.EventPublication, "", accepted)
	}
}

// meterBroker counts what goes through b and not through Streams, and all reads as reads of tops.
func meterBroker(b broker.Broker, t *Meter) broker.Broker { return &meteredBroker{b, t} }

type meteredBroker struct {
	broker.Broker
	meter *Meter
}

func (m *meteredBroker) Describe() broker.Traits {
	traits := m.Broker.Describe()
	if publish := traits.Batch; publish != nil {
		traits.Batch = func(ctx context.Context, batch []broker.BatchItem) {
			publish(ctx, batch)
			m.meter.batch(batch)
		}
	}
	if read := traits.Positions; read != nil {
		traits.Positions = func(ctx context.Context, channels []string, metaTTL time.Duration) []broker.PositionResult {
			m.meter.actions(observe.ActionHistoryStreamTop, channels)
			return read(ctx, channels, metaTTL)
		}
	}
	return traits
}

func (m *meteredBroker) Run(h broker.EventHandler) error {
	return m.Broker.Run(&meteredHandler{h, m.meter})
}

func (m *meteredBroker) sent(e observe.Event, ch string, err error) error {
	if err == nil {
		m.meter.sent(e, ch)
	}
	return err
}

func (m *meteredBroker) Publish(ctx context.Context, ch string, pub *channel.Publication, o broker.PublishOptions) (broker.PublishResult, error) {
	r, err := m.Broker.Publish(ctx, ch, pub, o)
	m.meter.suppressed(observe.EventPublication, ch, r.Suppressed)
	return r, m.sent(observe.EventPublication, ch, err)
}

func (m *meteredBroker) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return m.sent(observe.EventJoin, ch, m.Broker.PublishJoin(ctx, ch, info))
}

func (m *meteredBroker) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return m.sent(observe.EventLeave, ch, m.Broker.PublishLeave(ctx, ch, info))
}

func (m *meteredBroker) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	m.meter.Action(observe.ActionHistoryStreamTop, ch, 1)
	return m.Broker.History(ctx, ch, f)
}

func (m *meteredBroker) RemoveHistory(ctx context.Context, ch string) error {
	m.meter.Action(observe.ActionHistoryRemove, ch, 1)
	return m.Broker.RemoveHistory(ctx, ch)
}

type meteredHandler struct {
	broker.EventHandler
	meter *Meter
}

func (h *meteredHandler) HandlePublication(ch string, e broker.PublicationEvent) {
	h.meter.received(event(e.Pub), ch)
	h.EventHandler.HandlePublication(ch, e)
}

func (h *meteredHandler) HandleJoin(ch string, info *channel.ClientInfo) {
	h.meter.received(observe.EventJoin, ch)
	h.EventHandler.HandleJoin(ch, info)
}

func (h *meteredHandler) HandleLeave(ch string, info *channel.ClientInfo) {
	h.meter.received(observe.EventLeave, ch)
	h.EventHandler.HandleLeave(ch, info)
}

func meterStreams(b broker.Broker, t *Meter) broker.Broker { return &meteredStreams{b, t} }

type meteredStreams struct {
	broker.Broker
	meter *Meter
}

func (s *meteredStreams) Subscribe(ctx context.Context, channels ...string) error {
	s.meter.actions(observe.ActionBrokerSubscribe, channels)
	return s.Broker.Subscribe(ctx, channels...)
}

func (s *meteredStreams) Unsubscribe(ctx context.Context, channels ...string) error {
	s.meter.actions(observe.ActionBrokerUnsubscribe, channels)
	return s.Broker.Unsubscribe(ctx, channels...)
}

func meterPresence(p broker.PresenceManager, t *Meter) broker.PresenceManager {
	return &meteredPresence{p, t}
}

type meteredPresence struct {
	broker.PresenceManager
	meter *Meter
}

func (p *meteredPresence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	p.meter.Action(observe.ActionAddPresence, ch, 1)
	return p.PresenceManager.Add(ctx, ch, info)
}

func (p *meteredPresence) Remove(ctx context.Context, ch, client, user string) error {
	p.meter.Action(observe.ActionRemovePresence, ch, 1)
	return p.PresenceManager.Remove(ctx, ch, client, user)
}

func (p *meteredPresence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	p.meter.Action(observe.ActionPresence, ch, 1)
	return p.PresenceManager.Presence(ctx, ch)
}

func (p *meteredPresence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	p.meter.Action(observe.ActionPresenceStats, ch, 1)
	return p.PresenceManager.Stats(ctx, ch)
}

// MeterController counts the control messages of c in both directions, unless c or t is nil.
func MeterController(c broker.Controller, t *Meter) broker.Controller {
	if c == nil || t == nil {
		return c
	}
	return &meteredController{c, t}
}

type meteredController struct {
	broker.Controller
	meter *Meter
}

func (c *meteredController) RunControl(node string, handle func(data []byte)) error {
	return c.Controller.RunControl(node, func(data []byte) {
		c.meter.received(observe.EventControl, "")
		handle(data)
	})
}

func (c *meteredController) PublishControl(ctx context.Context, node string, data []byte) error {
	err := c.Controller.PublishControl(ctx, node, data)
	if err == nil {
		c.meter.sent(observe.EventControl, "")
	}
	return err
}
