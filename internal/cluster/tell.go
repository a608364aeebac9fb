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
	validFor   = 2 * time.Second
	firstPause = 200 * time.Millisecond
	lastPause  = time.Second
	maxTelling = 1024
	// maxSingle is the most nodes that get a message one by one, so that the engine can say of each whether it receives
	// any. More get one message for all.
	maxSingle           = 64
	maxUndelivered      = 1024
	maxUndeliveredBytes = 16 << 20
	// A node that is back gets its commands after lastPause, then after longer pauses, up to lastRedelivery.
	lastRedelivery = 8 * time.Second
)

// pendingCommand is a command that other nodes have to confirm. The cluster's lock guards waiting and undelivered.
type pendingCommand struct {
	cmd     *control.Command
	size    int
	at      time.Time
	waiting map[string]struct{} // nodes that have not confirmed
	done    chan struct{}       // closed when waiting is empty
	// fewWaiting gets an element when no more nodes wait than were silent when the command was given.
	fewWaiting  chan struct{}
	silent      int
	undelivered bool     // the caller was answered; silent nodes must still get the command
	strangers   []string // nodes that came when all others had confirmed
}

func (o *pendingCommand) removeNode(uid string) {
	if _, ok := o.waiting[uid]; !ok {
		return
	}
	switch delete(o.waiting, uid); len(o.waiting) {
	case 0:
		close(o.done)
	case o.silent:
		select {
		case o.fewWaiting <- struct{}{}:
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
	o, err := c.beginCommand(cmd)
	if err != nil {
		return err
	}
	return c.endCommand(o, c.sendUntilConfirmed(ctx, o))
}

func (c *Cluster) beginCommand(cmd *control.Command) (*pendingCommand, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	c.lastID++
	cmd.UID, cmd.ID = c.cfg.UID, c.lastID
	now := time.Now()
	o := &pendingCommand{
		cmd: cmd, size: cmd.SizeProto(), at: now, waiting: make(map[string]struct{}), done: make(chan struct{}), fewWaiting: make(chan struct{}, 1),
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
	c.commands[cmd.ID] = o
	c.keepForStrangers(o)
	c.work.Add(1)
	return o, nil
}

func (c *Cluster) sendUntilConfirmed(ctx context.Context, o *pendingCommand) error {
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
func (c *Cluster) settled(ctx context.Context, o *pendingCommand, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	for {
		select {
		case <-o.done:
			return true
		case <-o.fewWaiting:
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

// send sends a command to all at first, then to the nodes that have not confirmed. No known node does it later than
// limit.
func (c *Cluster) send(ctx context.Context, o *pendingCommand, limit time.Time, first bool) error {
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
	for uid, e := range c.registry.inOrder() {
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

func (c *Cluster) silentOnly(o *pendingCommand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.notSilent(o.waiting)) == 0
}

// The lock is held.
func (c *Cluster) notSilent(uids map[string]struct{}) (list []string) {
	now := time.Now()
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		if e := c.registry.nodes[uid]; e != nil && !c.registry.silent(e, now) {
			list = append(list, uid)
		}
	}
	return list
}

func (c *Cluster) unconfirmed(o *pendingCommand, sent bool, err error) error {
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

func (c *Cluster) endCommand(o *pendingCommand, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.work.Done()
	if err != nil {
		c.forgetKept(func(k *pendingCommand) bool { return k == o })
	}
	for _, uid := range o.strangers {
		o.waiting[uid] = struct{}{}
	}
	if err != nil || len(o.waiting) == 0 {
		delete(c.commands, o.cmd.ID)
		return err
	}
	if len(o.strangers) > 0 {
		o.done = make(chan struct{})
	}
	if c.undelivered >= maxUndelivered || c.undeliveredBytes+o.size > maxUndeliveredBytes {
		delete(c.commands, o.cmd.ID)
		c.forgetKept(func(k *pendingCommand) bool { return k == o })
		return fmt.Errorf("%w of node %s, which is silent; %d commands are kept for silent nodes, and no more", ErrNoAnswer, c.names(o.waiting), c.undelivered)
	}
	c.keepUndelivered(o)
	c.log.Warn("nodes are silent and will be told of a command when they are back", "nodes", c.names(o.waiting), "for_ms", forgetAfter.Milliseconds())
	for _, uid := range c.notSilent(o.waiting) { // nodes that came back just now
		c.redeliver(uid)
	}
	return nil
}

func (c *Cluster) removeWaiting(o *pendingCommand, uid string) {
	o.removeNode(uid)
	if o.undelivered && len(o.waiting) == 0 {
		c.discard(o)
	}
}

func (c *Cluster) discard(o *pendingCommand) {
	delete(c.commands, o.cmd.ID)
	c.undelivered--
	c.undeliveredBytes -= o.size
}

// redeliver sends a node that is back what it missed, in the background. The lock is held.
func (c *Cluster) redeliver(uid string) {
	if c.closed || c.redelivering[uid] {
		return
	}
	c.redelivering[uid] = true
	c.work.Go(func() {
		for pause := lastPause; c.redeliverOnce(uid); pause = min(2*pause, lastRedelivery) {
			select {
			case <-time.After(pause):
			case <-c.ctx.Done():
			}
		}
	})
}

// redeliverOnce returns false if there are none, or the node is silent again; then another redeliver may begin.
func (c *Cluster) redeliverOnce(uid string) bool {
	c.mu.Lock()
	var missed []*pendingCommand
	if e := c.registry.nodes[uid]; e != nil && !c.registry.silent(e, time.Now()) {
		for _, o := range c.commands {
			if _, ok := o.waiting[uid]; ok && o.undelivered {
				missed = append(missed, o)
			}
		}
	}
	if len(missed) == 0 || c.closed {
		delete(c.redelivering, uid)
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()
	slices.SortFunc(missed, func(a, b *pendingCommand) int { return cmp.Compare(a.cmd.ID, b.cmd.ID) })
	for _, o := range missed {
		if c.sendUndelivered(o, uid) != nil {
			break // and try again after the pause
		}
	}
	return true
}

func (c *Cluster) sendUndelivered(o *pendingCommand, uid string) error {
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
