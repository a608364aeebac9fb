package cluster

import (
	"slices"
	"time"

	"github.com/gyrohq/gyro/internal/cluster/control"
)

// A node does not know the nodes that fell silent before it started. In its first minutes it keeps its commands for
// them: a stranger that is older than a command gets it when its first sign of life comes.

// keepForStrangers is called when a command begins. The lock is held.
func (c *Cluster) keepForStrangers(o *pendingCommand) {
	if o.at.Sub(c.registry.start) > forgetAfter {
		return
	}
	if len(c.kept) >= maxUndelivered || c.keptBytes+o.size > maxUndeliveredBytes {
		if !c.keptFull {
			c.keptFull = true
			c.log.Warn("no more commands are kept for nodes that were silent when this one started", "commands", len(c.kept), "bytes", c.keptBytes)
		}
		return
	}
	c.kept = append(c.kept, o)
	c.keptBytes += o.size
}

// forgetKept leaves out the commands that are to be forgotten. The lock is held.
func (c *Cluster) forgetKept(forget func(o *pendingCommand) bool) {
	c.kept = slices.DeleteFunc(c.kept, func(o *pendingCommand) bool {
		if !forget(o) {
			return false
		}
		c.keptBytes -= o.size
		return true
	})
}

// meetStranger gives a node that was not known the commands that are younger than it. The lock is held.
func (c *Cluster) meetStranger(n *control.Node, now time.Time) {
	if n.Protocol < control.Confirms {
		return
	}
	for _, o := range c.kept {
		if time.Duration(n.Clock) <= now.Sub(o.at) {
			continue
		}
		p := c.commands[o.cmd.ID]
		switch {
		case p != nil && len(p.waiting) > 0:
			p.waiting[n.UID] = struct{}{}
		case p != nil: // its caller is about to be answered
			p.strangers = append(p.strangers, n.UID)
		default:
			c.keepUndelivered(&pendingCommand{cmd: o.cmd, size: o.size, at: o.at, waiting: map[string]struct{}{n.UID: {}}, done: make(chan struct{})})
		}
	}
}

// keepUndelivered keeps a command for nodes that get it when they are heard. The lock is held.
func (c *Cluster) keepUndelivered(o *pendingCommand) {
	o.undelivered = true
	c.commands[o.cmd.ID] = o
	c.undelivered++
	c.undeliveredBytes += o.size
}
