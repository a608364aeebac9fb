//go:build linux

package load

import (
	"math/rand/v2"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
)

// mostAttempt is how long a client waits to be subscribed before it tries elsewhere: longer than SDKs, because all
// clients share their processors with the servers.
const mostAttempt = 15 * time.Second

type attempt struct {
	conn  *conn
	count uint32
	until int64
}

// attempts are sorted by their beginning.
type attempts struct {
	list  []attempt
	first int
}

func (a *attempts) push(c *conn, now time.Time) {
	c.attempt++
	if a.first > len(a.list)/2 {
		a.list, a.first = append(a.list[:0], a.list[a.first:]...), 0
	}
	a.list = append(a.list, attempt{c, c.attempt, now.Add(mostAttempt).UnixNano()})
}

// next is the time until the oldest attempt is too old.
func (a *attempts) next(now time.Time) time.Duration {
	if a.first == len(a.list) {
		return time.Hour
	}
	return max(0, time.Duration(a.list[a.first].until-now.UnixNano()))
}

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

// together is how many that come back go to one node, one after the other, so that a node and a load process have
// several to serve when they run. On a machine with more processes than processors a return costs a multiple otherwise.
const together = 16

func (l *loop) next(from uint16) uint16 {
	if l.going == 0 || l.target == from || l.nodes[l.target].avoided {
		l.target, l.going = l.other(from), together
	}
	l.going--
	return l.target
}

// other returns a random node for a connection that comes back, by the square of the room that the nodes have up to an
// equal part of all connections and a little more, as a load balancer by least connections that does not send everybody
// to the emptiest node. By the room itself, half of the clients of a drained node went to all nodes with a little room,
// and not to the one that was started before. It is another node than from, if there is one.
func (l *loop) other(from uint16) uint16 {
	open := 0
	for i := range l.nodes {
		if !l.nodes[i].avoided {
			open++
		}
	}
	level := l.plan.Conns / max(1, open)
	level += level/slack + 1
	choices, total := make([]int, len(l.nodes)), 0
	for _, level := range []int{level, 1 << 24} { // the second one if all are full, or avoided
		for i := range l.nodes {
			n := &l.nodes[i]
			choices[i] = 0
			if i != int(from) && !n.avoided {
				room := max(0, level-n.seen-n.sent)
				choices[i] = room * room
			}
			total += choices[i]
		}
		if total > 0 {
			break
		}
	}
	if total == 0 {
		return from
	}
	at := rand.IntN(total)
	for i, c := range choices {
		if at < c {
			return uint16(i)
		}
		at -= c
	}
	panic("unreachable: at is below the sum of all")
}

// slack is how much of its share a node may have beyond it: one in so many.
const slack = 200

func (l *loop) setApart(channels []plan.Channel) {
	apart := make(map[plan.Channel]bool, len(channels))
	for _, ch := range channels {
		apart[ch] = true
	}
	for i := range l.conns {
		l.conns[i].apart = apart[l.conns[i].channel]
	}
}
