package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

// Each node confirms commands for the connections of a user, because engines carry messages at most once, and may carry
// them late. A command is sent again, under the same ID, to the nodes that have not confirmed it; they do it once, and
// confirm each copy. A copy says until when a node may do it, by the clock of that node, for which signs of life tell a
// lower bound (registry.until). So a copy that an engine held back is never done after the caller got an error. The
// caller does not wait for a node that has fallen silent without a farewell. That node gets the command when it is back.

const (
	// tellTimeout bounds a command. It is longer than silentAfter, so that a killed node delays a command and does not
	// fail it.
	tellTimeout = 8 * time.Second
	// A node may do a copy of a command for validFor after it was sent. After the same time an engine that takes no
	// message is given up.
	validFor = 2 * time.Second
	// A command is sent again after firstPause, then after pauses that double up to
	// lastPause.
	firstPause = 200 * time.Millisecond
	lastPause  = time.Second
	// maxTelling is how many commands of this node are under way at a time; more wait.
	maxTelling = 1024
	// maxSingle is the most nodes that get a message one by one, so that the engine can say of each whether it receives
	// any. More get one message for all.
	maxSingle = 64
	// maxOwed and maxOwedBytes bound the commands that are kept for silent nodes.
	maxOwed      = 1024
	maxOwedBytes = 16 << 20
	// A node that is back gets its commands after lastPause, then after pauses that double up to lastReminder, until it
	// has confirmed them.
	lastReminder = 8 * time.Second
)

// order is a command that other nodes have to confirm. The cluster's lock guards waiting and owed.
type order struct {
	cmd     *control.Command
	size    int
	at      time.Time
	waiting map[string]struct{} // nodes that have not confirmed
	done    chan struct{}       // closed when waiting is empty
	// few gets an element when no more nodes wait than were silent when the command was given.
	few    chan struct{}
	silent int
	owed   bool // the caller was answered; silent nodes must still get the order
}

func (o *order) strike(uid string) {
	if _, ok := o.waiting[uid]; !ok {
		return
	}
	switch delete(o.waiting, uid); len(o.waiting) {
	case 0:
		close(o.done)
	case o.silent:
		select {
		case o.few <- struct{}{}:
		default:
		}
	}
}

// Tell has all other nodes do a command, if this node runs and has a controller. It returns nil when each known node has
// confirmed the command, has left, or is silent and will get it when it is back. Otherwise, after 8 s at most, the error
// names the nodes that have not confirmed; they will not do the command later. An engine that takes no message is given
// up after 2 s. If ctx is cancelled before its deadline, nodes may do the command for 2 s more.
func (c *Cluster) Tell(ctx context.Context, cmd *control.Command) error {
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if !started || c.alone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case c.telling <- struct{}{}:
		defer func() { <-c.telling }()
	case <-ctx.Done():
		return fmt.Errorf("gyro: command waited for %d others: %w", maxTelling, ctx.Err())
	}
	o, err := c.openOrder(cmd)
	if err != nil {
		return err
	}
	return c.closeOrder(o, c.insist(ctx, o))
}

func (c *Cluster) openOrder(cmd *control.Command) (*order, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	c.lastID++
	cmd.UID, cmd.ID = c.cfg.UID, c.lastID
	now := time.Now()
	o := &order{
		cmd: cmd, size: cmd.SizeProto(), at: now, waiting: make(map[string]struct{}), done: make(chan struct{}), few: make(chan struct{}, 1),
	}
	if o.size > maxCommand {
		return nil, tooLong(o.size)
	}
	for uid, e := range c.registry.nodes {
		if e.node.Protocol >= control.Confirms {
			o.waiting[uid] = struct{}{}
			if c.registry.silent(e, now) {
				o.silent++
			}
		}
	}
	c.orders[cmd.ID] = o
	c.work.Add(1)
	return o, nil
}

// insist sends a command until all nodes but silent ones have confirmed it.
func (c *Cluster) insist(ctx context.Context, o *order) error {
	deadline, _ := ctx.Deadline()
	limit := o.at.Add(validFor) // until the engine has taken the first message
	if deadline.Before(limit) {
		limit = deadline
	}
	sent := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := c.send(ctx, o, limit, !sent)
		if err == nil {
			sent, limit = true, deadline
		}
		if sent && c.silentOnly(o) {
			return nil
		}
		if c.settled(ctx, o, min(pause, time.Until(limit))) {
			return nil
		}
		if ctx.Err() != nil || time.Until(limit) <= 0 {
			return c.unconfirmed(o, sent, errors.Join(err, ctx.Err()))
		}
	}
}

// settled waits for that, no longer than d.
func (c *Cluster) settled(ctx context.Context, o *order, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	for {
		select {
		case <-o.done:
			return true
		case <-o.few:
			if c.silentOnly(o) {
				return true
			}
		case <-pause.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// send sends a command the first time to all, then to the nodes that have not confirmed. No known node does a copy later
// than limit.
func (c *Cluster) send(ctx context.Context, o *order, limit time.Time, first bool) error {
	now := time.Now()
	if sooner := now.Add(validFor); sooner.Before(limit) {
		limit = sooner
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	cmd := *o.cmd
	var missing []*control.Addressee
	old, long := false, false // nodes are there that do each copy that they get, or that do not know Deadlines
	c.mu.Lock()
	for uid, e := range c.registry.nodes {
		to := &control.Addressee{UID: uid, Until: c.registry.until(e, now, limit.Sub(now))}
		cmd.To = append(cmd.To, to)
		cmd.AddDeadline(uid, to.Until)
		old, long = old || e.node.Protocol < control.Confirms, long || e.node.Protocol < control.Deadlines
		if _, ok := o.waiting[uid]; ok && !c.registry.silent(e, now) {
			missing = append(missing, to)
		}
	}
	c.mu.Unlock()
	if !long {
		cmd.To = nil
	}
	if first || len(missing) > maxSingle && !old {
		return c.publish(ctx, "", &cmd)
	}
	cmd.Deadlines = nil
	for _, to := range missing {
		cmd.To = []*control.Addressee{to}
		if err := c.publish(ctx, to.UID, &cmd); err != nil && !errors.Is(err, broker.ErrNoReceiver) {
			return err
		}
	}
	return nil
}

func (c *Cluster) silentOnly(o *order) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.heard(o.waiting)) == 0
}

// heard returns the nodes among uids that are not silent. The lock is held.
func (c *Cluster) heard(uids map[string]struct{}) (heard []string) {
	now := time.Now()
	for uid := range uids {
		if e := c.registry.nodes[uid]; e != nil && !c.registry.silent(e, now) {
			heard = append(heard, uid)
		}
	}
	return heard
}

// unconfirmed is the error for the caller.
func (c *Cluster) unconfirmed(o *order, sent bool, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case !sent:
		return err
	}
	if err == nil {
		err = context.DeadlineExceeded
	}
	return fmt.Errorf("%w of node %s: %w", ErrNoAnswer, c.names(o.waiting), err)
}

func (c *Cluster) names(uids map[string]struct{}) string {
	var names []string
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		names = append(names, c.registry.describe(uid))
	}
	return strings.Join(names, ", ")
}

// closeOrder ends a command, or keeps it for silent nodes.
func (c *Cluster) closeOrder(o *order, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.work.Done()
	if err != nil || len(o.waiting) == 0 {
		delete(c.orders, o.cmd.ID)
		return err
	}
	if c.owed >= maxOwed || c.owedBytes+o.size > maxOwedBytes {
		delete(c.orders, o.cmd.ID)
		return fmt.Errorf("%w of node %s, which is silent; %d commands are kept for silent nodes, and no more", ErrNoAnswer, c.names(o.waiting), c.owed)
	}
	o.owed = true
	c.owed++
	c.owedBytes += o.size
	c.log.Warn("nodes are silent and will be told of a command when they are back", "nodes", c.names(o.waiting), "for_ms", forgetAfter.Milliseconds())
	for _, uid := range c.heard(o.waiting) { // nodes that came back just now
		c.remind(uid)
	}
	return nil
}

func (c *Cluster) strike(o *order, uid string) {
	o.strike(uid)
	if o.owed && len(o.waiting) == 0 {
		c.forgive(o)
	}
}

func (c *Cluster) forgive(o *order) {
	delete(c.orders, o.cmd.ID)
	c.owed--
	c.owedBytes -= o.size
}

// remind sends a node that is back the commands that it missed, in the background. The lock is held.
func (c *Cluster) remind(uid string) {
	if c.closed || c.reminding[uid] {
		return
	}
	c.reminding[uid] = true
	c.work.Go(func() {
		for pause := lastPause; c.remindOnce(uid); pause = min(2*pause, lastReminder) {
			select {
			case <-time.After(pause):
			case <-c.ctx.Done():
			}
		}
	})
}

// remindOnce returns false if there are none, or the node is silent again; then another remind may begin.
func (c *Cluster) remindOnce(uid string) bool {
	c.mu.Lock()
	var missed []*order
	if e := c.registry.nodes[uid]; e != nil && !c.registry.silent(e, time.Now()) {
		for _, o := range c.orders {
			if _, ok := o.waiting[uid]; ok && o.owed {
				missed = append(missed, o)
			}
		}
	}
	if len(missed) == 0 || c.closed {
		delete(c.reminding, uid)
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()
	slices.SortFunc(missed, func(a, b *order) int { return cmp.Compare(a.cmd.ID, b.cmd.ID) })
	for _, o := range missed {
		if c.sendOwed(o, uid) != nil {
			break // and try again after the pause
		}
	}
	return true
}

func (c *Cluster) sendOwed(o *order, uid string) error {
	ctx, cancel := context.WithTimeout(c.ctx, validFor)
	defer cancel()
	cmd := *o.cmd
	c.mu.Lock()
	if e := c.registry.nodes[uid]; e != nil {
		cmd.To = []*control.Addressee{{UID: uid, Until: c.registry.until(e, time.Now(), validFor)}}
	}
	c.mu.Unlock()
	return c.publish(ctx, uid, &cmd)
}
