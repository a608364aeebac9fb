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
	clients  map[string]string // user -> ID of the connection
	subs     map[[2]string]*subscriptionBook
}

type channelBook struct {
	data   map[client.StreamPosition]string // by position, as anybody was told
	acked  map[client.StreamPosition]string
	known  map[string]bool
	placed map[string][]client.StreamPosition // by data
}

type subscriptionBook struct {
	at     client.StreamPosition
	active bool
	begun  client.StreamPosition
	got    map[client.StreamPosition]bool
	fresh  bool // never subscribed
}

func newBook(fail func(format string, args ...any)) *book {
	return &book{fail: fail, channels: map[string]*channelBook{}, clients: map[string]string{}, subs: map[[2]string]*subscriptionBook{}}
}

func (b *book) channel(ch string) *channelBook {
	c := b.channels[ch]
	if c == nil {
		c = &channelBook{map[client.StreamPosition]string{}, map[client.StreamPosition]string{}, map[string]bool{}, map[string][]client.StreamPosition{}}
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

func (b *book) tried(ch, data string)   { b.channel(ch).known[data] = true }
func (b *book) refused(ch, data string) {}

// acknowledged is a publication whose publisher has its position.
func (b *book) acknowledged(ch, data string, at client.StreamPosition) {
	c := b.channel(ch)
	if at.Epoch == "" {
		return
	}
	if old, ok := c.acked[at]; ok && old != data {
		b.fail("%s: two publications were acknowledged at %v: %s and %s", ch, at, old, data)
	}
	c.acked[at] = data
	b.place(ch, at, data)
}

func (b *book) place(ch string, at client.StreamPosition, data string) {
	c := b.channel(ch)
	if old, ok := c.data[at]; ok && old != data {
		b.fail("%s: at %v there are %s and %s", ch, at, old, data)
	}
	c.data[at] = data
	if !slices.Contains(c.placed[data], at) {
		c.placed[data] = append(c.placed[data], at)
		for _, o := range c.placed[data] {
			if o.Epoch == at.Epoch && o != at {
				b.fail("%s: %s is twice in the stream, at %v and %v", ch, data, o, at)
			}
		}
	}
}

func (b *book) connected(user, id string) { b.clients[user] = id }
func (b *book) disconnected(user string) {
	delete(b.clients, user)
	for k, s := range b.subs {
		if k[0] == user {
			s.active = false
		}
	}
}

func (b *book) subscribed(_ time.Duration, user, ch string, at client.StreamPosition, recovered bool) {
	s := b.sub(user, ch)
	if s.active {
		b.fail("%s: subscribed to %s twice", user, ch)
	}
	s.active = true
	if recovered {
		if s.fresh {
			b.fail("%s: the first subscription to %s has recovered", user, ch)
		}
		if at.Epoch != s.at.Epoch {
			b.fail("%s: recovered %s in epoch %s, was in %s", user, ch, at.Epoch, s.at.Epoch)
		}
		s.fresh = false
		return // publications between come behind
	}
	s.fresh, s.at, s.begun = false, at, at
}

func (b *book) unsubscribed(user, ch string) { b.sub(user, ch).active = false }
func (b *book) gap(user, ch string)          {}

func (b *book) got(_ time.Duration, user, ch string, offset uint64, data string) {
	s, c := b.sub(user, ch), b.channel(ch)
	if !c.known[data] {
		b.fail("%s: %s has %s, which nobody published", user, ch, data)
	}
	if !s.active {
		b.fail("%s: got %s of %s without a subscription", user, data, ch)
	}
	if offset == 0 {
		b.fail("%s: %s of %s has no offset", user, data, ch)
		return
	}
	if offset != s.at.Offset+1 {
		b.fail("%s: %s continues at %d after %d of %s", user, ch, offset, s.at.Offset, s.at.Epoch)
	}
	s.at.Offset = offset
	b.place(ch, s.at, data)
}

// settled is called when everything has worked for a while: top is the position of the channel's stream.
func (b *book) settled(ch string, top client.StreamPosition) {
	for k, s := range b.subs {
		if k[1] != ch || !s.active {
			continue
		}
		if s.at != top {
			b.fail("%s: is at %d of %s in %s, the stream is at %d of %s", k[0], s.at.Offset, s.at.Epoch, ch, top.Offset, top.Epoch)
		}
	}
}

// present is the presence of a channel as a node tells it in the end: client IDs.
func (b *book) present(node, ch string, ids []string) {
	want := []string{}
	for k, s := range b.subs {
		if k[1] == ch && s.active && b.clients[k[0]] != "" {
			want = append(want, b.clients[k[0]])
		}
	}
	slices.Sort(want)
	slices.Sort(ids)
	if !slices.Equal(want, ids) {
		b.fail("%s: present in %s are %s, subscribed are %s", node, ch, fmt.Sprint(ids), fmt.Sprint(want))
	}
}
