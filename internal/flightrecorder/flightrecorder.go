// Package flightrecorder records the events of the clients and channels of a node, in a bounded memory that forgets the
// oldest. A record costs a copy of its texts and no allocation.
package flightrecorder

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/inspect"
)

// Record is an event without its time and node. Of inspect.NewEpoch, Text is the epoch before and Key the new one.
type Record struct {
	Kind                                 inspect.Kind
	Code                                 uint32
	Count                                int
	Client                               uuid.UUID // zero: it concerns no client
	User, Addr, Channel, What, Text, Key string
}

const (
	// chunkSize is how many bytes a ring takes at a time.
	chunkSize = 64 << 10
	// The size of a record without its texts, and the most of a text.
	headSize = 2 + 1 + texts + 4 + 4 + 8 + 16
	texts    = 6
	maxText  = 255
	nodePart = 16
)

// Recorder has the rings of a node. A nil Recorder has none.
type Recorder struct {
	rings []*Ring
}

// New returns a recorder with a ring for each loop, and one for the node. Together they take size bytes, each at least
// 128 KiB. With a size below 1 it returns nil.
func New(size, loops int) *Recorder {
	if size < 1 {
		return nil
	}
	r := &Recorder{}
	for range loops {
		r.rings = append(r.rings, newRing((size-size/nodePart)/loops))
	}
	r.rings = append(r.rings, newRing(size/nodePart))
	return r
}

// Loop returns the ring of a loop; nil if r is nil.
func (r *Recorder) Loop(i int) *Ring {
	if r == nil {
		return nil
	}
	return r.rings[i]
}

// Node returns the ring for events that concern no client; nil if r is nil.
func (r *Recorder) Node() *Ring {
	if r == nil {
		return nil
	}
	return r.rings[len(r.rings)-1]
}

// Ring holds the latest records of a loop. Any goroutine may use it: a work queue records refusals, and a reader can read
// although the loop hangs. The lock is held for one record, or for the copy of one chunk. The methods of a nil Ring do
// nothing.
type Ring struct {
	mu     sync.Mutex
	chunks []chunk
	most   int // chunks
	newest int // number of the chunk that is written, from 0 on; it is chunks[newest%most]
	last   int64
}

type chunk struct {
	data  *[chunkSize]byte
	used  int
	first int64
}

func newRing(size int) *Ring { return &Ring{most: max(size/chunkSize, 2), newest: -1} }

// Add records an event that happened at now, in nanoseconds since the Unix epoch. A later event gets no earlier time.
func (r *Ring) Add(now int64, e *Record) {
	if r == nil {
		return
	}
	list := [texts]string{e.User, e.Addr, e.Channel, e.What, e.Text, e.Key}
	size := headSize
	for i := range list {
		list[i] = cut(list[i])
		size += len(list[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, now)
	b := r.room(size)
	binary.LittleEndian.PutUint16(b, uint16(size))
	b[2] = byte(e.Kind)
	for i := range list {
		b[3+i] = byte(len(list[i]))
	}
	binary.LittleEndian.PutUint32(b[3+texts:], e.Code)
	binary.LittleEndian.PutUint32(b[7+texts:], uint32(min(max(e.Count, 0), math.MaxInt32)))
	binary.LittleEndian.PutUint64(b[11+texts:], uint64(r.last))
	copy(b[19+texts:], e.Client[:])
	at := headSize
	for i := range list {
		at += copy(b[at:], list[i])
	}
}

func (r *Ring) room(size int) []byte {
	if r.newest < 0 || r.chunks[r.newest%r.most].used+size > chunkSize {
		if r.newest++; len(r.chunks) < r.most {
			r.chunks = append(r.chunks, chunk{data: new([chunkSize]byte)})
		}
		c := &r.chunks[r.newest%r.most]
		c.used, c.first = 0, r.last
	}
	c := &r.chunks[r.newest%r.most]
	b := c.data[c.used : c.used+size : c.used+size]
	c.used += size
	return b
}

// span returns the numbers of the oldest and newest chunk, and the time from which on the ring has forgotten nothing; 0
// if it never has.
func (r *Ring) span() (oldest, newest int, from int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if oldest = max(r.newest-r.most+1, 0); oldest > 0 {
		from = r.chunks[oldest%r.most].first
	}
	return oldest, r.newest, from
}

// copyOf copies the records of a chunk into buf, or returns false if the ring has forgotten it. first is the time of the
// first record.
func (r *Ring) copyOf(number int, buf []byte) (records []byte, first int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number <= r.newest-r.most {
		return nil, 0, false
	}
	c := &r.chunks[number%r.most]
	return buf[:copy(buf, c.data[:c.used])], c.first, true
}
