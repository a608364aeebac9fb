package servers

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// When the Sentinels replace a primary that lives, it takes writes for a second or more until the new one is announced,
// and these are lost. So commands wait in that time. The Sentinel that leads a failover announces its next step some 100
// ms before it makes a replica the primary: until then the replica gets everything that the old primary has answered.

// Announcements of a Sentinel.
const (
	promotes = "+failover-state-send-slaveof-noone" // a replica becomes the primary next
	promoted = "+failover-state-reconf-slaves"      // the Sentinel names the new primary from now on
	aborted  = "-failover-abort-slave-timeout"      // the old primary stays
	switched = "+switch-master"                     // the others name the new primary, too
)

// maxPause: the Sentinel asks the replica each second whether it is the primary.
const maxPause = 3 * time.Second

const pingPause = 10 * time.Millisecond

// pause makes commands wait while a primary is replaced.
type pause struct {
	until atomic.Pointer[chan struct{}] // is closed at the end; nil: no command waits

	mu    sync.Mutex
	old   string // the address of the primary that is replaced
	timer *time.Timer
}

func (p *pause) wait(ctx context.Context) error {
	until := p.until.Load()
	if until == nil {
		return nil
	}
	select {
	case <-*until:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pause) begin(old string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until.Load() != nil {
		return
	}
	until := make(chan struct{})
	p.old = old
	p.until.Store(&until)
	p.timer = time.AfterFunc(maxPause, p.end)
}

func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := p.until.Swap(nil); until != nil {
		p.timer.Stop()
		close(*until)
	}
}

func (p *pause) over(primary string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Load() != nil && p.old != primary
}

// release ends the pause when the Sentinels name another primary. The first command on a closed connection fails, so a
// ping goes ahead.
func (c *Client) release(primary string) {
	if !c.pause.over(primary) {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, maxPause)
	defer cancel()
	for ctx.Err() == nil && c.redis.Do(ctx, c.redis.B().Ping().Build()).Error() != nil {
		select {
		case <-time.After(pingPause):
		case <-ctx.Done():
		}
	}
	c.pause.end()
}

func (c *Client) announced(sentinel int, channel, text string) {
	name, primary, ok := announcement(channel, text)
	if !ok || name != c.opts.SentinelMaster {
		return
	}
	switch channel {
	case promotes:
		c.pause.begin(primary)
	case aborted:
		c.pause.end()
	default:
		c.next.Store(uint32(sentinel)) // the others may still name the old one
		c.suspectPrimary()
	}
}

// announcement returns the name and the address of the primary, which is the old one while a replica is being promoted.
// The text is "master NAME IP PORT", "slave NAME IP PORT @ NAME IP PORT" with the primary behind the @, or "NAME IP PORT
// IP PORT".
func announcement(channel, text string) (name, primary string, ok bool) {
	fields := strings.Fields(text)
	if channel == switched {
		if len(fields) != 5 {
			return "", "", false
		}
		return fields[0], net.JoinHostPort(fields[3], fields[4]), true
	}
	switch {
	case len(fields) == 4 && fields[0] == "master":
		fields = fields[1:]
	case len(fields) == 8 && fields[4] == "@":
		fields = fields[5:]
	default:
		return "", "", false
	}
	return fields[0], net.JoinHostPort(fields[1], fields[2]), true
}
