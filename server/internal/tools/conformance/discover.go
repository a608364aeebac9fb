package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func (s *suite) discover(ctx context.Context) error {
	for _, prefix := range s.Prefixes {
		t := newTrial(ctx, s, "discovery", grant{prefix: prefix})
		err := t.Attempt(func() {
			if s.server.Dialer.Kind.OneWay {
				t.Listen() // a client that sends nothing finds nothing out
				return
			}
			t.explore()
		})
		t.grant.signed = t.Signed
		t.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", s.URL, err)
		}
		s.kinds = append(s.kinds, t.grant)
	}
	return nil
}

func may(c *client, cmd *protocol.Command) bool { return c.Call(cmd).Error == nil }

func (t *trial) explore() {
	c := t.Connect()
	ch := t.Channel()
	ask := func(r *protocol.SubscribeRequest) { r.JoinLeave, r.Delta, r.Flag = true, probe.Fossil, 1 }
	r := c.Call(t.Request(ch, ask))
	if r.Error != nil && r.Error.Code == protocol.ErrorPermissionDenied.Code && t.SignSubscription != nil {
		t.Signed = true
		r = c.Call(t.Request(ch, ask))
	}
	if r.Error != nil {
		t.exploreMap(c)
		return
	}
	t.has |= stream
	t.add(positions, r.Subscribe.Positioned)
	t.add(deltas, r.Subscribe.Delta)
	t.add(numbers, r.Subscribe.ID > 0)
	t.add(publishes, may(c, probe.Publish(ch, t.Data(1))))
	t.ByClients = t.has&publishes != 0
	t.add(published, t.ByClients || t.API != nil)
	t.add(presence, may(c, &protocol.Command{Presence: &protocol.PresenceRequest{Channel: ch}}))
	t.add(keeps, may(c, probe.History(protocol.HistoryRequest{Channel: ch})) && r.Subscribe.Positioned)
	if r.Subscribe.Recoverable {
		t.exploreRecovery(c)
	}
	other := t.Connect()
	filtered := func(r *protocol.SubscribeRequest) {
		r.Tf = &protocol.FilterNode{Key: "k", Cmp: "eq", Val: "v"}
		r.Delta = ""
	}
	t.add(filters, may(other, t.Request(ch, filtered)))
	if t.has&filters == 0 {
		other.Subscribe(ch)
	}
	t.add(joins, t.joined(c, other, ch))
}

func (t *trial) add(n need, has bool) {
	if has {
		t.has |= n
	}
}

// exploreRecovery tells whether recovery gives all that was missed or the latest publication. Without publications it is
// not known.
func (t *trial) exploreRecovery(c *client) {
	if t.has&published == 0 {
		return
	}
	ch := t.Channel()
	top := c.Subscribe(ch)
	if t.Attempt(func() {
		t.Publish(c, ch, t.Data(1))
		t.Publish(c, ch, t.Data(2))
	}) != nil {
		t.has &^= published // the API does not publish there
		return
	}
	c.Leave(ch)
	c.Pending = nil
	r := c.Recover(ch, 0, top.Epoch)
	t.add(caches, r.Recovered && len(r.Publications) == 1)
	t.add(recovers, !r.Recovered || len(r.Publications) != 1)
}

// A join may come so late after a publication behind it, on servers that do not keep the order of both.
const straggle = time.Second

// joined reports whether c gets the join of another client. If clients may publish, a publication tells when the join
// should have come; else half of the time-out passes.
func (t *trial) joined(c, other *client, ch string) bool {
	of := func(info *protocol.ClientInfo) bool { return info != nil && info.Client == other.ID }
	within := c.Timeout / 2
	if t.ByClients && may(other, probe.Publish(ch, t.Data(2))) {
		err := c.Attempt(func() {
			c.Await("a publication", within, func(r *protocol.Reply) bool { return r.Push != nil && r.Push.Pub != nil && of(r.Push.Pub.Info) })
		})
		if err == nil {
			within = min(within, straggle)
		}
	}
	return c.Attempt(func() {
		c.Await("a join", within, func(r *protocol.Reply) bool { return r.Push != nil && r.Push.Join != nil && of(r.Push.Join.Info) })
	}) == nil
}

func (t *trial) exploreMap(c *client) {
	ch := t.Channel()
	t.Signed = false
	r := c.Call(t.Request(ch, probe.State))
	if r.Error != nil && r.Error.Code == protocol.ErrorPermissionDenied.Code && t.SignSubscription != nil {
		t.Signed = true
		r = c.Call(t.Request(ch, probe.State))
	}
	if r.Error != nil {
		t.explorePoll(c)
		return
	}
	t.has |= mapState
	with := t.Connect().Call(t.Request(t.Channel(), func(r *protocol.SubscribeRequest) {
		probe.State(r)
		r.Delta = probe.Fossil
	}))
	t.add(mapDeltas, with.Error == nil && with.Subscribe.Delta)
	t.add(mapPositions, r.Subscribe.Recoverable || r.Subscribe.Epoch != "")
	t.add(writes, may(c, probe.Set(ch, "key", t.Data(1))) && may(c, probe.Remove(ch, "key")))
	t.add(published, t.has&writes != 0 || t.API != nil)
}

func (t *trial) explorePoll(c *client) {
	ch := t.Channel()
	if !may(c, t.Request(ch, probe.Polled)) {
		return
	}
	request := map[string]any{"channel": ch, "key": "key", "version": 1, "data": probe.Raw(t.Data(1))}
	t.add(polled, t.API != nil && t.API.Call(t.Ctx, "shared_poll_publish", request, new(struct{})) == nil)
}
