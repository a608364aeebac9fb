//go:build linux

// Package load is a load process: thousands of clients on one goroutine. A client that waits costs some hundred bytes besides its
// socket, and a message that thousands get is decoded once.
package load

import (
	"container/heap"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gyrohq/gyro/e2e/million/internal/books"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

type node struct {
	address  address
	requests [2][]byte // of handshakes, by encoding
	avoided  bool
	seen     int // connections of all load processes, as an order told
	sent     int // attempts since
	live     int
}

// loop owns the connections of a process, on one goroutine.
type loop struct {
	plan    *plan.Plan
	first   int // number of the first connection
	conns   []conn
	nodes   []node
	sources []address
	tokens  *tokens
	poller  *poll.Poller
	decoder *decoder
	codecs  [2]codec.ClientCodec
	pongs   [2][]byte
	in, out []byte // for one read, and one write
	text    []byte // of a message before it is framed

	want, started, window int
	waiting               waiting
	attempts              attempts
	target                uint16 // the node for the connections that come back now
	going                 int    // how many more of them go there
	report                Report
	gaps                  books.Gaps

	delivery, apart, joining, back *hdrhistogram.Histogram
}

func newLoop(s Setup, p *plan.Plan) (*loop, error) {
	poller, err := poll.New()
	if err != nil {
		return nil, err
	}
	from, to := p.Range(s.Index)
	l := &loop{
		plan: p, first: from, conns: make([]conn, to-from), nodes: make([]node, len(s.Nodes)), poller: poller, decoder: newDecoder(),
		tokens: newTokens(s.Secret), in: make([]byte, 64<<10), window: 16, gaps: books.Gaps{},
		codecs:   [2]codec.ClientCodec{codec.ForClient(protocol.JSON), codec.ForClient(protocol.Protobuf)},
		pongs:    [2][]byte{appendFrame(nil, wsclient.OpText, []byte("{}")), appendFrame(nil, wsclient.OpBinary, []byte{0})},
		delivery: NewHistogram(), apart: NewHistogram(), joining: NewHistogram(), back: NewHistogram(),
	}
	l.report.Cuts, l.report.Refusals = map[string]uint64{}, map[string]uint64{}
	for i, node := range s.Nodes {
		n := &l.nodes[i]
		if n.address, err = parseNode(node); err != nil {
			return nil, err
		}
		n.requests = [2][]byte{handshake(node, 0), handshake(node, 1)}
	}
	for _, source := range s.Sources {
		a, err := parse(source, 0)
		if err != nil {
			return nil, err
		}
		l.sources = append(l.sources, a)
	}
	for i := range l.conns {
		c := &l.conns[i]
		*c = conn{loop: l, fd: -1, node: uint16(p.Home(from + i)), channel: p.Channel(from + i)}
		if p.Binary(from + i) {
			c.encoding = 1
		}
	}
	return l, nil
}

func (l *loop) run(orders <-chan *Order, reports chan<- *Report) {
	wake := make(chan struct{}, 1)
	go l.poller.Wait(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	timer := time.NewTimer(0)
	var current any
	always := func() bool { return true }
	for {
		more := l.poller.Poll(always, &current)
		l.due(time.Now())
		l.start()
		if more {
			select {
			case o, ok := <-orders:
				if !ok {
					return
				}
				reports <- l.obey(o)
			default:
			}
			continue
		}
		timer.Reset(l.pause(time.Now()))
		select {
		case <-wake:
		case <-timer.C:
		case o, ok := <-orders:
			if !ok {
				return
			}
			reports <- l.obey(o)
		}
	}
}

func (l *loop) obey(o *Order) *Report {
	l.want = max(l.want, min(o.Connect, len(l.conns)))
	if o.Window > 0 {
		l.window = o.Window
	}
	if o.Open || len(o.Avoid) > 0 {
		for i := range l.nodes {
			l.nodes[i].avoided = false
		}
		for _, i := range o.Avoid {
			l.nodes[i].avoided = true
		}
	}
	for i, n := range o.Seen {
		l.nodes[i].seen, l.nodes[i].sent = n, 0
	}
	if len(o.Issued) > 0 {
		l.settle(o.Issued)
	}
	r := l.report
	r.Cuts, r.Refusals = maps.Clone(l.report.Cuts), maps.Clone(l.report.Refusals) // the loop goes on while this is written
	if o.Latencies {
		r.Delivery, r.Apart, r.Joining, r.Return = l.delivery.Export(), l.apart.Export(), l.joining.Export(), l.back.Export()
	}
	if o.Reset {
		l.delivery.Reset()
		l.apart.Reset()
		l.setApart(o.Apart)
		l.joining.Reset()
		l.back.Reset()
	}
	if o.Where {
		for i := range l.nodes {
			r.Where = append(r.Where, l.nodes[i].live)
		}
	}
	l.start()
	r.Opening, r.Waiting = l.report.Opening, l.report.Waiting
	return &r
}

func (l *loop) settle(issued [][2]uint64) {
	totals := make(map[plan.Channel]uint64, len(issued))
	for _, one := range issued {
		totals[plan.Channel(one[0])] = one[1]
	}
	for i := range l.conns[:l.started] {
		c := &l.conns[i]
		if total, ok := totals[c.channel]; ok {
			if c.told {
				c.told = false
				l.book(c).Tell(&c.next, total)
			}
			l.book(c).Settle(l.gaps, i, &c.next, total)
		}
	}
}

func (l *loop) book(c *conn) *books.Book {
	if c.channel.Class().Recoverable() {
		return &l.report.Recoverable
	}
	return &l.report.Plain
}

// start opens connections as far as the window allows: new ones, and ones whose pause is over.
func (l *loop) start() {
	for l.report.Opening < l.window && l.started < l.want {
		l.started++
		l.conns[l.started-1].open()
	}
}

func (l *loop) due(now time.Time) {
	for len(l.waiting) > 0 && l.report.Opening < l.window && l.waiting[0].at <= now.UnixNano() {
		c := heap.Pop(&l.waiting).(wait).conn
		l.report.Waiting--
		c.node = l.next(c.node)
		c.open()
	}
	l.giveUp(now)
}

func (l *loop) pause(now time.Time) time.Duration {
	next := l.attempts.next(now)
	if len(l.waiting) == 0 || l.report.Opening >= l.window {
		return next
	}
	return min(next, max(0, time.Duration(l.waiting[0].at-now.UnixNano())))
}

// The time before another attempt, as in SDKs: the least, and a random part of a span that doubles with each failure, up
// to the most.
const (
	leastPause = 500 * time.Millisecond
	mostPause  = 20 * time.Second
)

func (l *loop) later(c *conn) {
	span := min(mostPause, leastPause<<c.tries)
	c.tries = min(c.tries+1, 16)
	l.report.Waiting++
	pause := min(mostPause, leastPause+rand.N(span))
	heap.Push(&l.waiting, wait{time.Now().Add(pause).UnixNano(), c})
}

type wait struct {
	at   int64
	conn *conn
}

type waiting []wait

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].at < w[j].at }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)        { *w = append(*w, x.(wait)) }
func (w *waiting) Pop() any {
	old := *w
	last := old[len(old)-1]
	*w = old[:len(old)-1]
	return last
}
