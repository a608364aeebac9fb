package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro"
)

// edition of a channel's options: the bits say which options of its kind the application does not grant. A reload puts
// another edition in force at a node, for the subscriptions and publications that come.
type edition int

const (
	noPresence edition = 1 << iota
	noComings          // neither emits joins and leaves nor gets them
	noDelta
	noRecovery // positions alone
	noPositions
	shortHistory
	otherBatch
	editionBits = iota
)

func (e edition) has(bit edition) bool { return e&bit != 0 }

// reload puts an edition in force at one node, and later at the others. Nodes that start have it. Servers subscribe
// clients without a handler of the subscription, so the options of their channels stay.
func (r *run) reload(first int, ch string, e edition) {
	if e %= 1 << editionBits; kindOf(ch).server {
		return
	}
	r.editions[ch] = e
	for i := range r.machines {
		m := r.machines[(first+i)%len(r.machines)]
		lives := m.lives
		r.after(time.Duration(i)*400*time.Millisecond, m.name+" reload "+ch, func() {
			if m.lives == lives && r.editions[ch] == e {
				r.log.add(m.name, "edition %07b of %s", e, ch)
				m.editions[ch] = e
			}
		})
	}
}

// restore grants all options again. Clients subscribe anew where they may have fewer, once they are back.
func (r *run) restore() {
	for ch := range r.editions {
		r.editions[ch] = 0
	}
	for _, m := range r.machines {
		clear(m.editions)
	}
	reloaded := slices.Sorted(maps.Keys(r.editions))
	for _, u := range r.users {
		for _, ch := range reloaded {
			r.after(recovery/3, u.user().name, func() { u.unsubscribe(ch) })
			r.after(recovery/2, u.user().name, func() { u.subscribe(ch) })
		}
	}
}

// reduce leaves out the options that an edition does not grant.
func (e edition) reduce(ch string, o *gyro.SubscribeOptions) {
	k := kindOf(ch)
	o.Presence = o.Presence && !e.has(noPresence)
	o.EmitJoinLeave, o.PushJoinLeave = o.EmitJoinLeave && !e.has(noComings), o.PushJoinLeave && !e.has(noComings)
	o.AllowDelta = o.AllowDelta && !e.has(noDelta)
	if e.has(noRecovery) && o.Recoverable && k.sequence == gapless {
		o.Recoverable, o.Positioned = false, true
	}
	if e.has(noPositions) && k.sequence == gapless {
		o.Recoverable, o.Positioned = false, false
	}
	if e.has(otherBatch) && o.BatchMaxDelay > 0 {
		o.BatchMaxDelay, o.BatchMaxSize = 40*time.Millisecond, 3
	}
}

// keep sets the history of a publication.
func (e edition) keep(ch string, o *gyro.PublishOptions) {
	if k := kindOf(ch); e.has(shortHistory) && k.history.HistorySize > 0 && k.sequence == gapless && !o.SkipHistory {
		o.HistorySize, o.HistoryTTL, o.HistoryMetaTTL = 4, 5*time.Second, 10*time.Second
	}
}

// grant is what the application has granted to a client for a channel.
type grant struct {
	options gyro.SubscribeOptions
	emitted bool // it has granted EmitJoinLeave to this client once
}

// granting notes the options of a subscription that begins.
func (r *run) granting(id, ch string, o gyro.SubscribeOptions) {
	r.tell(fmt.Sprint("grant ", id, " ", ch), func() {
		key := [2]string{id, ch}
		r.book.grants[key] = grant{o, o.EmitJoinLeave || r.book.grants[key].emitted}
	})
}

// options of a client's subscription, as they were granted.
func (b *book) options(id, ch string) gyro.SubscribeOptions {
	if g, ok := b.grants[[2]string{id, ch}]; ok {
		return g.options
	}
	return kindOf(ch).options
}

// loose tells that a subscription has no positions, although others of its kind have: publications may get lost, and come twice.
func (b *book) loose(user, ch string) bool {
	o := b.options(b.clients[user], ch)
	return kindOf(ch).sequence == gapless && o.Map == nil && !o.Positioned && !o.Recoverable
}
