package upgrade

// line is a list of connections, the oldest first. A connection may be in lineCount of
// them.
type line struct {
	oldest, newest *opening
	which          int // of an opening's links are those of this line
}

const lineCount = 2

type links struct{ prev, next *opening }

func (l *line) add(o *opening) {
	if l.newest == nil {
		l.oldest = o
	} else {
		l.newest.links[l.which].next = o
		o.links[l.which].prev = l.newest
	}
	l.newest = o
}

func (l *line) remove(o *opening) {
	at := o.links[l.which]
	if at.prev != nil {
		at.prev.links[l.which].next = at.next
	} else {
		l.oldest = at.next
	}
	if at.next != nil {
		at.next.links[l.which].prev = at.prev
	} else {
		l.newest = at.prev
	}
	o.links[l.which] = links{}
}

func (l *line) after(o *opening) *opening { return o.links[l.which].next }

func (l *line) clear() { l.oldest, l.newest = nil, nil }
