package upgrade

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// maxHeld bounds the bytes of incomplete heads of a loop: those who trickle their
// requests cannot fill the memory. For one who needs more, those are closed whose first
// bytes are the oldest, so that the last who came has as much time as can be. Heads
// that arrive at once, as usual, are not concerned.
const maxHeld = 16 << 20

// expireBatch is how many connections a turn of the loop closes for being late: some 2 ms.
const expireBatch = 256

// intake holds the connections of one loop whose first request is not complete.
// Everything but send and close happens on the loop.
type intake struct {
	listener *listener
	loop     transport.Loop
	arriving []netio.Socket // of the goroutine that accepts

	// request and arrival are of the connection that is being answered.
	request Request
	arrival Arrival

	timer transport.Timer
	// expiring: expire has more to do, and was posted.
	expiring bool

	// mu is for Close, should the loop end before the listener.
	mu      sync.Mutex
	waiting line // all, in the order of their arrival
	partial line // those of which something was read, in the order of their first bytes
	held    int
	closed  bool
}

// opening is a connection that is about to send its first request.
type opening struct {
	intake  *intake
	fd      int32
	scanned int32 // bytes in which the head does not end
	remote  netip.AddrPort
	due     time.Time
	b       *netio.Buffer // what was read; nil: nothing
	gone    bool
	links   [lineCount]links
}

func newIntake(l *listener, loop transport.Loop) *intake {
	return &intake{listener: l, loop: loop, waiting: line{which: 0}, partial: line{which: 1}}
}

// send brings the connections that arrive to the loop.
func (in *intake) send() {
	if len(in.arriving) == 0 {
		return
	}
	batch := slices.Clone(in.arriving)
	in.arriving = in.arriving[:0]
	if in.loop.Post(func() { in.admit(batch) }) {
		return
	}
	for _, s := range batch { // the acceptor refuses them
		in.listener.handOver(netio.NewHandover(s, nil))
	}
}

// admit waits for the requests of new connections.
func (in *intake) admit(batch []netio.Socket) {
	in.mu.Lock()
	defer in.mu.Unlock()
	due := time.Now().Add(in.listener.timeout)
	for _, s := range batch {
		o := &opening{intake: in, fd: int32(s.FD), remote: s.Remote, due: due}
		if in.closed || in.loop.Watch(int(s.FD), o, true, false) != nil {
			netio.CloseFD(s.FD, false)
			continue
		}
		in.waiting.add(o)
	}
	in.arm()
}

// remove takes o off the lines. Its socket stays open, and watched.
func (in *intake) remove(o *opening) {
	in.waiting.remove(o)
	if o.b != nil {
		in.partial.remove(o)
	}
	o.gone = true
	in.held -= o.size()
}

// size is what o counts for in held.
func (o *opening) size() int {
	if o.b == nil {
		return 0
	}
	return cap(o.b.B)
}

// arm sets the timer for the oldest connection.
func (in *intake) arm() {
	if in.timer == nil && !in.expiring && in.waiting.oldest != nil && in.listener.timeout > 0 {
		in.timer = in.loop.After(time.Until(in.waiting.oldest.due), in.expire)
	}
}

// expire closes the connections whose time is up, expireBatch at a time, between which
// the loop looks after others. Meanwhile there is no timer.
func (in *intake) expire() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.timer, in.expiring = nil, false
	now := time.Now()
	for n := 0; in.waiting.oldest != nil && !in.waiting.oldest.due.After(now); n++ {
		if n == expireBatch {
			in.expiring = in.loop.Post(in.expire) // a loop that ends closes the rest
			return
		}
		in.drop(in.waiting.oldest)
	}
	in.arm()
}

// drop closes a connection.
func (in *intake) drop(o *opening) {
	in.remove(o)
	in.loop.Unwatch(int(o.fd))
	netio.CloseFD(uintptr(o.fd), false)
	o.b.Free()
	o.b = nil
}

// close closes all connections. Any goroutine may call it, once no more are sent.
func (in *intake) close() {
	if in.loop.Post(in.end) {
		return
	}
	// The loop has ended, or is about to: nothing may be asked of it.
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	for o := in.waiting.oldest; o != nil; o = in.waiting.after(o) {
		o.gone = true
		netio.CloseFD(uintptr(o.fd), false)
	}
	in.waiting.clear()
	in.partial.clear()
}

func (in *intake) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	for in.waiting.oldest != nil {
		in.drop(in.waiting.oldest)
	}
	if in.timer != nil {
		in.timer.Stop()
		in.timer = nil
	}
}

// Ended implements transport.Watcher.
func (o *opening) Ended() {
	o.intake.mu.Lock()
	defer o.intake.mu.Unlock()
	if !o.gone {
		o.intake.drop(o)
	}
}

// Ready implements transport.Watcher.
func (o *opening) Ready(readable, _ bool) {
	if !readable {
		return
	}
	in := o.intake
	data, end, v := in.read(o)
	switch v {
	case verdictForeign:
		in.handOver(o, bytes.Clone(data))
	case verdictComplete:
		in.answer(o, data, end)
	}
	if v != verdictIncomplete {
		o.b.Free()
		o.b = nil
	}
}

// handOver leaves the connection to net/http, which is to read early first.
func (in *intake) handOver(o *opening, early []byte) {
	in.loop.Unwatch(int(o.fd))
	in.listener.handOver(netio.NewHandover(netio.Socket{FD: uintptr(o.fd), Remote: o.remote}, early))
}

// read takes what the client sent. If the verdict is final, o is off the list; data
// is all that was read.
func (in *intake) read(o *opening) (data []byte, end int, v verdict) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if o.gone {
		return nil, 0, verdictIncomplete
	}
	buf := in.loop.Buffer()
	n, err := netio.TryRead(uintptr(o.fd), buf)
	switch {
	case err != nil && o.b == nil:
		in.drop(o)
		return nil, 0, verdictIncomplete
	case err != nil:
		in.remove(o)
		return o.b.B, 0, verdictForeign
	}
	if data = buf[:n]; o.b != nil {
		in.append(o, data)
		data = o.b.B
	}
	end, v = in.listener.judge(data, int(o.scanned))
	if v != verdictIncomplete {
		in.remove(o)
		return data, end, v
	}
	o.scanned = int32(len(data))
	if o.b == nil && n > 0 {
		in.append(o, data)
	}
	for in.held > maxHeld {
		in.drop(in.partial.oldest)
	}
	return nil, 0, v
}

// append adds to what was read of o.
func (in *intake) append(o *opening, data []byte) {
	if o.b == nil {
		in.partial.add(o)
	}
	before := o.size()
	o.b = o.b.Grow(len(data))
	o.b.B = append(o.b.B, data...)
	in.held += o.size() - before
}
