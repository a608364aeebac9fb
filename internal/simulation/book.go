package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client"
)

// book checks the promises over what clients were told and backends got as answers.
type book struct {
	fail     func(format string, args ...any)
	channels map[string]*channelBook
	goesBack bool              // streams may lose their newest publications
	clients  map[string]string // user -> ID of the connection
	subs     map[[2]string]*subscriptionBook
	sees     bool // the engine tells what it is asked to do
	lossy    bool // the engine loses events without a word
	healed   time.Duration
	calm     *calm
	count    int
	filtered func(user, ch string) bool // tells that a user gets some publications alone
	quiet    func(user string) bool     // tells that a client does not say each time that it subscribes
	attempts map[[2]string]int          // by channel and client, or user: to subscribe again
	grants   map[[2]string]grant        // by client and channel
}

type channelBook struct {
	data   map[client.StreamPosition]string // by position, as anybody was told
	past   *pastBook                        // nil: the engine loses no data
	acked  map[client.StreamPosition]string
	known  map[string]bool
	placed map[string][]client.StreamPosition // by data

	triedAt, answeredAt map[string]int  // by data, in the order of the book
	refused             map[string]bool // was not done
	told                map[string]bool // to anybody
	done                map[string]bool // the engine has had it
}

type subscriptionBook struct {
	at     client.StreamPosition
	life   int // of the position; see pastBook
	active bool
	begun  client.StreamPosition
	got    map[client.StreamPosition]bool
	fresh  bool // never subscribed
	gapDue bool // the program must be told of a gap
	// recovers says that the latest subscription was recoverable, recovered that the one before it was.
	recovers, recovered bool

	since   time.Duration
	until   time.Duration         // not subscribed since then,
	id      string                // as this client
	last    client.StreamPosition // of the newest publication that the client was told
	data    string
	told    map[string]bool // since subscribed
	newest  int             // when the newest of them was tried
	expects string
	entries map[string]client.Publication
	comings map[string]*int // by client
}

func newBook(fail func(format string, args ...any)) *book {
	return &book{fail: fail, channels: map[string]*channelBook{}, clients: map[string]string{}, subs: map[[2]string]*subscriptionBook{}, attempts: map[[2]string]int{}, grants: map[[2]string]grant{}}
}

func (b *book) channel(ch string) *channelBook {
	c := b.channels[ch]
	if c == nil {
		c = &channelBook{
			data: map[client.StreamPosition]string{}, acked: map[client.StreamPosition]string{}, known: map[string]bool{},
			placed: map[string][]client.StreamPosition{}, triedAt: map[string]int{}, answeredAt: map[string]int{},
			refused: map[string]bool{}, told: map[string]bool{}, done: map[string]bool{},
		}
		if b.goesBack {
			c.past = newPastBook()
		}
		b.channels[ch] = c
	}
	return c
}

func (b *book) sub(user, ch string) *subscriptionBook {
	k := [2]string{user, ch}
	if b.subs[k] == nil {
		b.subs[k] = &subscriptionBook{fresh: true, got: map[client.StreamPosition]bool{}}
	}
	return b.subs[k]
}

func (b *book) tried(ch, data string) {
	b.count++
	c := b.channel(ch)
	c.known[data], c.triedAt[data] = true, b.count
}

// acknowledged is a publication whose publisher has its position.
func (b *book) acknowledged(ch, data string, at client.StreamPosition) {
	b.answered(ch, data)
	c := b.channel(ch)
	if at.Epoch == "" {
		return
	}
	if old, ok := c.acked[at]; ok && old != data && !c.past.replaced(at, old) {
		b.fail("%s: two publications were acknowledged at %v: %s and %s", ch, at, old, data)
	}
	c.acked[at] = data
	b.place(ch, at, data)
}

func (b *book) place(ch string, at client.StreamPosition, data string) {
	c := b.channel(ch)
	if old, ok := c.data[at]; ok && old != data && !c.past.replaced(at, old) && !c.past.replaced(at, data) {
		b.fail("%s: at %v there are %s and %s", ch, at, old, data)
	}
	c.data[at] = data
	if !slices.Contains(c.placed[data], at) {
		c.placed[data] = append(c.placed[data], at)
		for _, o := range c.placed[data] {
			if o.Epoch == at.Epoch && o != at && c.known[data] {
				b.fail("%s: %s is twice in the stream, at %v and %v", ch, data, o, at)
			}
		}
	}
}

func (b *book) connected(user, id string) { b.clients[user] = id }
func (b *book) disconnected(user string) {
	for k, s := range b.subs {
		if k[0] == user {
			b.goes(s, user, k[1])
		}
	}
	delete(b.clients, user)
}

func (b *book) subscribed(now time.Duration, user, ch string, at client.StreamPosition, recovered bool) {
	s := b.sub(user, ch)
	k := kindOf(ch)
	switch {
	case !s.active:
	case !k.server:
		b.fail("%s: subscribed to %s twice", user, ch)
	case k.sequence == gapless && (at.Epoch == s.at.Epoch && at.Offset > s.at.Offset || at.Epoch != s.at.Epoch && max(at.Offset, s.at.Offset) > 0):
		b.fail("%s: a new subscription to %s, in place of another, goes from %v to %v", user, ch, s.at, at)
	}
	b.tries(user, ch)
	if !s.active {
		b.calm.comes(ch, b.clients[user])
	}
	s.active, s.since = true, now
	s.told, s.newest, s.expects, s.comings = map[string]bool{}, 0, "", map[string]*int{}
	if recovered && k.sequence == gapless {
		if s.fresh {
			b.fail("%s: the first subscription to %s has recovered", user, ch)
		}
		if !s.recovered && b.quiet(user) { // the model goes on at its position from before
			if at.Epoch == s.last.Epoch && at.Offset < s.last.Offset {
				b.fail("%s: recovered %s from %d, after it had got %d", user, ch, at.Offset, s.last.Offset)
			}
			s.at, s.begun = at, at
			clear(s.got)
		}
		if at.Epoch != s.at.Epoch {
			b.fail("%s: recovered %s in epoch %s, was in %s", user, ch, at.Epoch, s.at.Epoch)
		}
		s.fresh = false
		return // publications between come behind
	}
	s.fresh, s.at, s.begun = false, at, at
	clear(s.got)
	s.life = b.channel(ch).past.now()
}

func (b *book) unsubscribed(user, ch string) {
	b.goes(b.sub(user, ch), user, ch)
}

func (b *book) goes(s *subscriptionBook, user, ch string) {
	if s.active {
		s.until, s.id = b.calm.r.now(), b.clients[user]
		b.calm.goes(ch, b.clients[user])
	}
	s.active, s.gapDue = false, false
}

func (b *book) got(_ time.Duration, user, ch string, offset uint64, data string) {
	s, c := b.sub(user, ch), b.channel(ch)
	if !c.known[data] && !removal(data) && !derived(ch) {
		b.fail("%s: %s has %s, which nobody published", user, ch, data)
	}
	if !s.active {
		b.fail("%s: got %s of %s without a subscription", user, data, ch)
	}
	if s.gapDue {
		b.fail("%s: got %s of %s before it was told of a gap", user, data, ch)
	}
	if c.refused[data] {
		b.fail("%s: got %s of %s, which was suppressed", user, data, ch)
	}
	c.told[data] = true
	if kindOf(ch).sequence == unnumbered {
		b.unnumbered(s, user, ch, offset, data)
		return
	}
	if offset == 0 && passes(data) {
		if b.filtered(user, ch) && !isRed(data) {
			b.fail("%s: got %s of %s, which the filter does not let through", user, data, ch)
		}
		return
	}
	if offset == 0 {
		b.fail("%s: %s of %s has no offset", user, data, ch)
		return
	}
	if b.loose(user, ch) {
		return
	}
	sifts := b.filtered(user, ch)
	if kindOf(ch).sequence == gapless && !sifts && offset != s.at.Offset+1 || offset <= s.at.Offset {
		b.fail("%s: %s continues at %d after %d of %s", user, ch, offset, s.at.Offset, s.at.Epoch)
	}
	if !c.past.follows(s.at, s.life, data) {
		b.fail("%s: %s goes on with %s at %d, but %d of %s was lost", user, ch, data, offset, s.at.Offset, s.at.Epoch)
	}
	s.at.Offset = offset
	s.last, s.data = s.at, data
	if sifts {
		b.gotFiltered(s, user, ch, data, s.at)
	}
	s.life = c.past.lifeOf(data)
	b.place(ch, s.at, data)
}

// settled is called when everything has worked for a while: top is the position of the channel's stream.
func (b *book) settled(ch string, top client.StreamPosition) {
	for k, s := range b.subs {
		if k[1] != ch || !s.active || b.loose(k[0], ch) {
			continue
		}
		if past := b.channel(ch).past; past.lost(s.at, s.life, past.now()) {
			b.fail("%s: is at %d of %s in %s, which was lost", k[0], s.at.Offset, s.at.Epoch, ch)
		}
		if s.gapDue {
			b.fail("%s: was never told of a gap in %s", k[0], ch)
		}
		switch kindOf(ch).sequence {
		case unnumbered:
			if s.expects != "" && !s.told[s.expects] {
				b.fail("%s: has not got %s of %s", k[0], s.expects, ch)
			}
			continue
		case rising:
			if !derived(ch) && top.Offset > 0 && s.last != top {
				b.fail("%s: has %d of %s as the newest in %s, the stream is at %d of %s", k[0], s.last.Offset, s.last.Epoch, ch, top.Offset, top.Epoch)
			}
			continue
		}
		if b.filtered(k[0], ch) {
			b.sifted(s, k[0], ch)
			continue
		}
		if s.at != top {
			b.fail("%s: is at %d of %s in %s, the stream is at %d of %s", k[0], s.at.Offset, s.at.Epoch, ch, top.Offset, top.Epoch)
		}
	}
}

// present is the presence of a channel as a node tells it in the end: client IDs.
func (b *book) present(node, ch string, ids []string) {
	if !kindOf(ch).options.Presence {
		return
	}
	want := []string{}
	for k, s := range b.subs {
		if id := b.clients[k[0]]; k[1] == ch && s.active && id != "" && b.options(id, ch).Presence {
			want = append(want, b.clients[k[0]])
		}
	}
	slices.Sort(want)
	slices.Sort(ids)
	if !slices.Equal(want, ids) {
		b.fail("%s: present in %s are %s, subscribed are %s", node, ch, fmt.Sprint(ids), fmt.Sprint(want))
	}
}
