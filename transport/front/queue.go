package front

import (
	"time"

	"github.com/gyrohq/gyro/transport"
)

type queue struct {
	oldest, newest *loopConn
	which          int           // the index of this queue in loopConn.at
	timeout        time.Duration // how long a loopConn may be in it; 0: as long as it likes
	timer          transport.Timer
	// expiring: expire was posted, because it has more to do.
	expiring bool
}

const queueCount = 2

type neighbours struct{ prev, next *loopConn }

func (q *queue) add(n *loopConn) {
	if q.newest == nil {
		q.oldest = n
	} else {
		q.newest.at[q.which].next = n
		n.at[q.which].prev = q.newest
	}
	q.newest = n
}

func (q *queue) remove(n *loopConn) {
	at := n.at[q.which]
	if at.prev != nil {
		at.prev.at[q.which].next = at.next
	} else {
		q.oldest = at.next
	}
	if at.next != nil {
		at.next.at[q.which].prev = at.prev
	} else {
		q.newest = at.prev
	}
	n.at[q.which] = neighbours{}
}

func (q *queue) after(n *loopConn) *loopConn { return n.at[q.which].next }

func (q *queue) clear() { q.oldest, q.newest = nil, nil }
