package front

import (
	"time"

	"github.com/gyrohq/gyro/transport"
)

// queue is a list of newcomers, the oldest first. A newcomer may be in a queue of each index.
type queue struct {
	oldest, newest *newcomer
	which          int           // the index of this queue in newcomer.at
	timeout        time.Duration // how long a newcomer may be in it; 0: as long as it likes
	timer          transport.Timer
	// expiring: expire was posted, because it has more to do.
	expiring bool
}

const queueCount = 2

type neighbours struct{ prev, next *newcomer }

func (q *queue) add(n *newcomer) {
	if q.newest == nil {
		q.oldest = n
	} else {
		q.newest.at[q.which].next = n
		n.at[q.which].prev = q.newest
	}
	q.newest = n
}

func (q *queue) remove(n *newcomer) {
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

func (q *queue) after(n *newcomer) *newcomer { return n.at[q.which].next }

func (q *queue) clear() { q.oldest, q.newest = nil, nil }
