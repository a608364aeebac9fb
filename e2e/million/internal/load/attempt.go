//go:build linux

package load

import (
	"math/rand/v2"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
)

// mostAttempt is how long a client waits to be subscribed before it tries elsewhere: longer than SDKs do, because all clients of the
// stand share their processors with the servers.
const mostAttempt = 15 * time.Second

// attempt is a connection on its way, until a time.
type attempt struct {
	conn  *conn
	count uint32
	until int64
}

// attempts in the order in which they began.
type attempts struct {
	list  []attempt
	first int
}

// push begins an attempt of a connection.
func (a *attempts) push(c *conn, now time.Time) {
	c.attempt++
	if a.first > len(a.list)/2 {
		a.list, a.first = append(a.list[:0], a.list[a.first:]...), 0
	}
	a.list = append(a.list, attempt{c, c.attempt, now.Add(mostAttempt).UnixNano()})
}

// next is the time until an attempt may have to be given up.
func (a *attempts) next(now time.Time) time.Duration {
	if a.first == len(a.list) {
		return time.Hour
	}
	return max(0, time.Duration(a.list[a.first].until-now.UnixNano()))
}

// giveUp ends the attempts that have taken too long.
func (l *loop) giveUp(now time.Time) {
	a := &l.attempts
	for a.first < len(a.list) && a.list[a.first].until <= now.UnixNano() {
		one := a.list[a.first]
		a.first++
		if c := one.conn; c.attempt == one.count && c.state != live && c.state != closed {
			c.fail("no subscription within " + mostAttempt.String())
		}
	}
}

// other returns the node that a load balancer which goes by least connections would choose now, as far as this process's connections
// tell, but not this one as long as there is another.
func (l *loop) other(node uint16) uint16 {
	best, from := node, rand.IntN(len(l.nodes))
	for i := range l.nodes {
		n := uint16((from + i) % len(l.nodes))
		if n != node && !l.nodes[n].avoided && (best == node || l.nodes[n].held < l.nodes[best].held) {
			best = n
		}
	}
	return best
}

// setApart sets the channels whose deliveries are recorded apart.
func (l *loop) setApart(channels []plan.Channel) {
	apart := make(map[plan.Channel]bool, len(channels))
	for _, ch := range channels {
		apart[ch] = true
	}
	for i := range l.conns {
		l.conns[i].apart = apart[l.conns[i].channel]
	}
}
