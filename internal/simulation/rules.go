package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client"
)

const removed = " removed"

// changeText is the text of a change of a map, in the book.
func changeText(key, data string, gone bool) string {
	if gone {
		return key + removed
	}
	return key + "=" + data
}

// derived says that nodes, not publishers, make what is in a channel.
func derived(ch string) bool { return strings.HasPrefix(ch, roster) || strings.HasPrefix(ch, whole) }

func removal(text string) bool { return strings.HasSuffix(text, removed) }

// done is a publication, or a change, that the engine executes.
func (b *book) done(ch, data string) {
	b.sees = true
	b.channel(ch).done[data] = true
}

// answered is a publication, or a change, whose publisher has an answer.
func (b *book) answered(ch, data string) {
	if b.sees && !b.channel(ch).done[data] {
		b.fail("%s: %s is acknowledged, and the engine never had it", ch, data)
	}
	b.count++
	if c := b.channel(ch); c.answeredAt[data] == 0 {
		c.answeredAt[data] = b.count
	}
}

// suppressed is a change whose publisher knows that it was not made.
func (b *book) suppressed(ch, data string) {
	c := b.channel(ch)
	if removal(data) { // another one may have been made
		return
	}
	c.refused[data] = true
	if c.told[data] {
		b.fail("%s: %s was told to subscribers, and suppressed", ch, data)
	}
}

// unnumbered checks a publication without an offset: none comes twice, and none before one that was acknowledged before it
// was published.
func (b *book) unnumbered(s *subscriptionBook, user, ch string, offset uint64, data string) {
	c := b.channel(ch)
	if offset != 0 {
		b.fail("%s: %s of %s has the offset %d", user, data, ch, offset)
	}
	if removal(data) {
		return
	}
	if s.told[data] {
		b.fail("%s: got %s of %s twice", user, data, ch)
	}
	if at := c.answeredAt[data]; at > 0 && at < s.newest {
		b.fail("%s: got %s of %s after one that was published when it had been acknowledged", user, data, ch)
	}
	s.told[data], s.newest = true, max(s.newest, c.triedAt[data])
}

// expect says that all who are subscribed now must get a publication.
func (b *book) expect(ch, data string) {
	for k, s := range b.subs {
		if k[1] == ch && s.active {
			s.expects = data
		}
	}
}

// state is all entries of a map, as a client was told.
func (b *book) state(user, ch string, entries []client.Publication) {
	s, c := b.sub(user, ch), b.channel(ch)
	s.entries = map[string]client.Publication{}
	for _, e := range entries {
		text := changeText(e.Key, string(e.Data), false)
		switch {
		case !c.known[text] && !derived(ch):
			b.fail("%s: %s has %s, which nobody published", user, ch, text)
		case c.refused[text]:
			b.fail("%s: %s has %s, which was suppressed", user, ch, text)
		case kindOf(ch).sequence == unnumbered:
		case e.Offset == 0 || e.Offset > s.at.Offset:
			b.fail("%s: %s of %s is at %d, and the state at %d", user, text, ch, e.Offset, s.at.Offset)
		default:
			b.place(ch, client.StreamPosition{Offset: e.Offset, Epoch: s.at.Epoch}, text)
		}
		c.told[text] = true
		s.entries[e.Key] = e
	}
}

// changed is a change of a map, as a client was told.
func (b *book) changed(now time.Duration, user, ch string, p client.Publication) {
	b.got(now, user, ch, p.Offset, changeText(p.Key, string(p.Data), p.Removed))
	s := b.sub(user, ch)
	switch {
	case s.entries == nil:
		b.fail("%s: got a change of %s before its state", user, ch)
	case p.Removed:
		delete(s.entries, p.Key)
	default:
		s.entries[p.Key] = p
	}
}

// converged compares the entries of a map, in the end, with those that the clients have.
func (b *book) converged(ch string, entries map[string]string) {
	k := kindOf(ch)
	if k.changes == nil {
		return
	}
	b.shows(ch, entries)
	if strings.HasPrefix(ch, roster) {
		b.roster(ch, entries)
	}
	for id, s := range b.subs {
		if id[1] != ch || !s.active || k.sequence == unnumbered && b.lossy && s.since < b.healed+channel.DefaultCatchUpTimeout { // an event was lost while it caught up, perhaps
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if e, ok := s.entries[key]; !ok || string(e.Data) != entries[key] {
				b.fail("%s: %s of %s is %s, and has %q", id[0], key, ch, entries[key], e.Data)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(s.entries)) {
			if _, ok := entries[key]; !ok {
				b.fail("%s: %s of %s was removed, and has %s", id[0], key, ch, s.entries[key].Data)
			}
		}
	}
}

// tries counts the times when a client may begin a subscription on its connection, after the first.
func (b *book) tries(user, ch string) {
	if id := b.clients[user]; id != "" {
		b.attempts[[2]string{ch, id}]++
	}
}

// joined and left: a client comes once for each time that it subscribes, and before it goes. other is its user.
func (b *book) joined(user, ch, id, other string) {
	if b.quiet(other) {
		return
	}
	n := b.coming(user, ch, id)
	if *n++; *n > 1+b.attempts[[2]string{ch, id}]+b.attempts[[2]string{ch, other}] {
		b.fail("%s: %s joins %s once more than it has subscribed, or after it has left", user, id, ch)
	}
}

func (b *book) left(user, ch, id string) {
	n := b.coming(user, ch, id)
	*n = max(*n, 1)
}

// coming returns how often a subscriber was told that a client had come.
func (b *book) coming(user, ch, id string) *int {
	s := b.sub(user, ch)
	if !b.options(b.clients[user], ch).PushJoinLeave {
		b.fail("%s: is told who comes and goes in %s, which it was not granted", user, ch)
	}
	if !s.active {
		b.fail("%s: is told who comes and goes in %s without a subscription", user, ch)
	}
	if s.comings == nil {
		s.comings = map[string]*int{}
	}
	if s.comings[id] == nil {
		s.comings[id] = new(int)
	}
	return s.comings[id]
}
