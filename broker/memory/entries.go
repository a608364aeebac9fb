package memory

import (
	"container/heap"
	"math"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/tidwall/btree"
)

// entries of a map, in the order of their keys, and on a heap if they expire. A nil *entries has none. The stripe's lock
// guards them.
type entries struct {
	byKey    btree.Map[string, *entry]
	expiries expiries
	// How the last change, and expiries, have the stream kept.
	size         int
	ttl, metaTTL time.Duration
}

// entry is the value of a key. There may be many, and few have versions.
type entry struct {
	pub   *channel.Publication // what set it
	last  *version             // that was set; nil if none was
	until int64                // when it expires; math.MaxInt64 if never
	noted int64                // when expiries looks at it: at until, or earlier
	index int                  // in expiries; -1 if it is not there
}

type version struct {
	number uint64
	epoch  string
}

func (e *entry) outdated(number uint64, epoch string) bool {
	return number > 0 && e.last != nil && number <= e.last.number && (epoch == "" || epoch == e.last.epoch)
}

func (es *entries) count() int {
	if es == nil {
		return 0
	}
	return es.byKey.Len()
}

func (es *entries) get(key string) *entry {
	if es == nil {
		return nil
	}
	e, _ := es.byKey.Get(key)
	return e
}

func (es *entries) add(key string) *entry {
	e := &entry{until: math.MaxInt64, index: -1}
	es.byKey.Set(key, e)
	return e
}

func (es *entries) remove(e *entry) {
	es.byKey.Delete(e.pub.Key)
	if e.index >= 0 {
		heap.Remove(&es.expiries, e.index)
	}
}

// prolong: a ttl of 0 is for ever. An entry that lives longer than before keeps its place in expiries, so that setting
// it again costs nothing there.
func (es *entries) prolong(e *entry, ttl time.Duration, now int64) {
	e.until = forEverOr(now, ttl)
	switch {
	case e.index < 0 && e.until < math.MaxInt64:
		e.noted = e.until
		heap.Push(&es.expiries, e)
	case e.index >= 0 && e.until < e.noted:
		e.noted = e.until
		heap.Fix(&es.expiries, e.index)
	}
}

// first returns when the next entry expires. some is false without entries.
func (es *entries) first() (at int64, some bool) {
	if es.count() == 0 {
		return math.MaxInt64, false
	}
	for len(es.expiries) > 0 {
		e := es.expiries[0]
		if e.noted == e.until {
			return e.until, true
		}
		e.noted = e.until
		heap.Fix(&es.expiries, 0)
	}
	return math.MaxInt64, true
}

// page: a negative limit stands for all. next is the cursor of the next page.
func (es *entries) page(cursor string, limit int) (out []*channel.Publication, next string) {
	if limit == 0 || es.count() == 0 {
		return nil, ""
	}
	if limit < 0 || limit > es.count() {
		limit = es.count()
	}
	out = make([]*channel.Publication, 0, limit)
	es.byKey.Ascend(cursor, func(key string, e *entry) bool {
		switch {
		case key == cursor:
		case len(out) == limit:
			next = out[limit-1].Key
			return false
		default:
			out = append(out, e.pub)
		}
		return true
	})
	return out, next
}

type expiries []*entry

func (d expiries) Len() int           { return len(d) }
func (d expiries) Less(i, j int) bool { return d[i].noted < d[j].noted }
func (d expiries) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements heap.Interface.
func (d *expiries) Push(x any) {
	e := x.(*entry)
	e.index = len(*d)
	*d = append(*d, e)
}

// Pop implements heap.Interface.
func (d *expiries) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	e.index = -1
	return e
}
