package simulation

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/client"
)

// moved: a client that subscribes again goes on at its position, or is told of a gap.
func (b *book) moved(user string, e client.SubscribedEvent) {
	k, s := kindOf(e.Channel), b.sub(user, e.Channel)
	if o := b.options(b.clients[user], e.Channel); e.Recoverable != o.Recoverable && o.Map == nil {
		b.fail("%s: subscribed to %s, recoverable %v, and was granted %v", user, e.Channel, e.Recoverable, o.Recoverable)
	}
	s.recovered, s.recovers = s.recovers, e.Recoverable
	if !e.Recoverable || !s.recovered || k.sequence != gapless || k.server || k.changes != nil {
		return
	}
	if at := e.Position; !s.fresh && !e.WasRecovering && at != s.at {
		b.fail("%s: subscribed to %s at %d of %s after %d of %s, and was told of no gap", user, e.Channel, at.Offset, at.Epoch, s.at.Offset, s.at.Epoch)
	}
}

// expectGap: the client for Go tells its program of publications that are missing, before those that follow. The models
// of other SDKs have no such event.
func (b *book) expectGap(user string, e client.SubscribedEvent) {
	if k := kindOf(e.Channel); k.sequence == gapless && k.changes == nil && !b.quiet(user) {
		b.sub(user, e.Channel).gapDue = e.WasRecovering && !e.Recovered
	}
}

func (b *book) gap(user, ch string) { b.sub(user, ch).gapDue = false }

// watch looks at the queues of a node's clients every second, as long as there are faults.
func (r *run) watch(m *machine) {
	r.after(time.Second, m.name+" watch", func() {
		if r.healed {
			return
		}
		if node := m.node; !m.down {
			go func() {
				load, err := node.Inspect().Load(context.Background())
				r.tell(m.name+" watch", func() {
					if limit := r.queue(); err == nil && load.LargestQueue > limit {
						r.fail("%s: %d bytes wait for a client, the limit is %d", m.name, load.LargestQueue, limit)
					}
				})
			}()
		}
		r.watch(m)
	})
}
