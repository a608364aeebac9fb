package stand

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/wire"
	"github.com/gyrohq/gyro/internal/wsclient"
)

// orders keeps the commands that nodes got for clients of other nodes. Each is for another user with one connection.
type orders struct {
	mu     sync.Mutex
	open   []*order // not both answered and carried out yet
	last   int
	over   bool
	counts Orders
}

type Orders struct {
	Acknowledged, Failed int
	// Done counts executed commands, Void commands whose client was lost before.
	Done, Void int
	// Wrong has acknowledged commands that were not executed, and commands that were executed after the end.
	Wrong []string
}

type order struct {
	text    string
	visitor *visitor
	// by is the node that got the command, life how often it had died before. A node that dies forgets whom it has not
	// told yet.
	by, life int
	answered time.Time
	err      error
	// happened is when the command was executed, or, with void, when the client lost its connection.
	happened time.Time
	void     bool
}

// orderLimit is longer than a node tries to reach the others (8 s).
const orderLimit = 12 * time.Second

const (
	codeUnsubscribed = 2000 // by the server
	codeDismissed    = 4501 // of a disconnect by a commander
)

// verbs are the commands: their parameters, and whether a push shows that they were executed.
var verbs = []struct {
	name   string
	params func(user string) map[string]any
	done   func(*reply) bool
}{
	{"disconnect", func(user string) map[string]any {
		return map[string]any{"user": user, "disconnect": map[string]any{"code": codeDismissed, "reason": user}}
	}, func(*reply) bool { return false }},
	{"unsubscribe", func(user string) map[string]any {
		return map[string]any{"user": user, "channel": "plain:" + user}
	}, func(r *reply) bool { return r.Push.Unsubscribe != nil && r.Push.Unsubscribe.Code == codeUnsubscribed }},
	{"subscribe", func(user string) map[string]any {
		return map[string]any{"user": user, "channel": "plain:more-" + user}
	}, func(r *reply) bool { return r.Push.Subscribe != nil }},
}

func (s *Stand) command(work *sync.WaitGroup) {
	addrs := rotated(s.Nodes, 0)
	for range s.opts.Commanders {
		work.Go(func() {
			for s.ctx.Err() == nil {
				s.order(addrs)
				wire.Sleep(s.ctx, rand.N(200*time.Millisecond))
			}
		})
	}
}

// order connects a user to one node and gives another node a command for it.
func (s *Stand) order(addrs []string) {
	s.still.RLock()
	defer s.still.RUnlock()
	at, by := rand.IntN(len(addrs)), rand.IntN(len(addrs))
	verb := verbs[rand.IntN(len(verbs))]
	o, user := s.orders.add()
	v, err := s.visit(s.ctx, addrs[at], user, func(r *reply) {
		if r.Push != nil && verb.done(r) {
			s.orders.happened(o, false)
		}
	})
	if err == nil {
		if _, err = v.do(fmt.Sprintf(`"subscribe":{"channel":"plain:%s"}`, user)); err != nil {
			v.leave()
		}
	}
	if err != nil {
		s.orders.forget(o)
		return
	}
	o.visitor, o.by, o.life = v, by, s.reception.life(by)
	go func() {
		<-v.over
		end := (*wsclient.CloseError)(nil)
		s.orders.happened(o, !errors.As(v.end, &end) || end.Code != codeDismissed)
	}()
	o.text = fmt.Sprintf("%s of %s at node %d, commanded at %s to node %d", verb.name, user, at, s.Clock(), by)
	ctx, cancel := context.WithTimeout(s.ctx, orderLimit)
	defer cancel()
	err = (&rig.Server{Addr: addrs[by]}).API(ctx, verb.name, verb.params(user), nil)
	if s.ctx.Err() == nil {
		s.orders.answered(o, err, s.Clock())
	}
}

func (b *orders) add() (*order, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	o := &order{}
	b.open = append(b.open, o)
	return o, fmt.Sprintf("u%d", b.last)
}

func (b *orders) forget(o *order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(o)
}

func (b *orders) drop(o *order) {
	b.open = slices.DeleteFunc(b.open, func(other *order) bool { return other == o })
}

func (b *orders) answered(o *order, err error, clock string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o.answered, o.err = time.Now(), err
	if err == nil {
		b.counts.Acknowledged++
		o.text += ", acknowledged at " + clock
	} else {
		b.counts.Failed++
		o.text += fmt.Sprintf(", failed at %s (%v)", clock, err)
	}
	b.close(o)
}

func (b *orders) happened(o *order, void bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !o.happened.IsZero() {
		return
	}
	o.happened, o.void = time.Now(), void
	b.close(o)
}

func (b *orders) close(o *order) {
	if o.answered.IsZero() || o.happened.IsZero() {
		return
	}
	b.drop(o)
	o.visitor.leave()
	switch {
	case o.void:
		b.counts.Void++
	case !b.over:
		b.counts.Done++
	default:
		b.counts.Wrong = append(b.counts.Wrong, o.text+": carried out after the end")
	}
}

// owed returns acknowledged orders that were not executed, except orders of nodes that have died since.
func (b *orders) owed(life func(node int) int) (texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.open {
		if !o.answered.IsZero() && o.err == nil && o.life == life(o.by) {
			texts = append(texts, o.text+": not carried out")
		}
	}
	return texts
}

// end makes it wrong to execute an order from now on.
func (b *orders) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}

func (b *orders) read() Orders {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := b.counts
	counts.Wrong = slices.Clone(counts.Wrong)
	return counts
}
