package cluster

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/internal/cluster/control"
)

const (
	// A command is known to be done for rememberFor at least, unless there are more than
	// maxRemembered.
	rememberFor   = forgetAfter
	maxRemembered = 32 << 10
	// maxConfirm bounds the confirmations for a node, which sends a command again whose confirmation was dropped.
	maxConfirm = 4096
)

// doneBefore knows the commands that were done, in two generations: commands that were done before since are in old. One
// goroutine may use it at a time.
type doneBefore struct {
	young, old map[doneKey]struct{}
	since      time.Time
}

type doneKey struct {
	uid string
	id  uint64
}

func (d *doneBefore) note(uid string, id uint64, now time.Time) (before bool) {
	k := doneKey{uid, id}
	if _, before = d.young[k]; before {
		return true
	}
	if _, before = d.old[k]; before {
		return true
	}
	if d.young == nil || len(d.young) >= maxRemembered || now.Sub(d.since) > rememberFor {
		d.old, d.young, d.since = d.young, make(map[doneKey]struct{}), now
	}
	d.young[k] = struct{}{}
	return false
}

// do does and confirms a command of another node, unless it was done before or its time is over. A sender that does not
// know this node yet sets no time for it.
func (c *Cluster) do(cmd *control.Command) {
	if cmd.ID == 0 { // the sender waits for no confirmation
		c.cfg.Handler.Apply(cmd)
		return
	}
	if cmd.Late(c.cfg.UID, int64(c.clock.now())) {
		return
	}
	c.mu.Lock()
	before := c.done.note(cmd.UID, cmd.ID, time.Now())
	c.mu.Unlock()
	if !before {
		c.cfg.Handler.Apply(cmd)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ids := c.confirm[cmd.UID]; len(ids) < maxConfirm && (len(ids) > 0 || len(c.confirm) < maxNodes) {
		c.confirm[cmd.UID] = append(ids, &control.Confirmed{ID: cmd.ID})
	}
	select {
	case c.toConfirm <- struct{}{}:
	default:
	}
}

// runConfirm sends the confirmations that gathered for a node in one message.
func (c *Cluster) runConfirm() {
	for {
		select {
		case <-c.toConfirm:
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		confirm := c.confirm
		c.confirm = make(map[string][]*control.Confirmed)
		c.mu.Unlock()
		for _, uid := range slices.Sorted(maps.Keys(confirm)) {
			ctx, cancel := context.WithTimeout(c.ctx, validFor)
			_ = c.publish(ctx, uid, &control.Command{Confirmation: &control.Confirmation{Commands: confirm[uid]}})
			cancel()
		}
	}
}

func (c *Cluster) confirmed(uid string, m *control.Confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range m.Commands {
		if o := c.commands[cmd.ID]; o != nil {
			c.removeWaiting(o, uid)
		}
	}
}
