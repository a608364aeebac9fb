package simulation

import (
	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/protocol"
)

// red is the filter of some subscribers.
var red = &protocol.FilterNode{Key: "color", Cmp: "eq", Val: "red"}

// tags of a publication, by which subscribers filter.
func tags(data string) map[string]string {
	return map[string]string{"color": [...]string{"red", "green", "blue"}[hash(data)%3]}
}

func isRed(data string) bool { return tags(data)["color"] == "red" }

// filters tells how a user filters a channel: with its own filter, or with one of the server, or not.
func (r *run) filters(user, ch string) (own, server bool) {
	if !kindOf(ch).options.AllowTagsFilter {
		return false, false
	}
	n := number(user) % 4
	return n == 1 && !r.modelled(user), n == 2
}

func (r *run) filtered(user, ch string) bool {
	own, server := r.filters(user, ch)
	return own || server
}

// optionsOf returns the options of a user's subscription.
func (r *run) optionsOf(user, ch string) gyro.SubscribeOptions {
	o := kindOf(ch).options
	batch(ch, &o)
	if _, server := r.filters(user, ch); server {
		o.ServerTagsFilter = red
	}
	if kindOf(ch).watched {
		o.PresenceMaps = []channel.PresenceMap{{Channel: roster + ch, Kind: clientsMap.Kind, Options: *kindOf(roster).changes}}
	}
	return o
}

// sifted checks that a subscriber with a filter, in the end, has all publications that pass.
func (b *book) sifted(s *subscriptionBook, user, ch string) {
	for at, data := range b.channel(ch).data {
		if at.Epoch == s.at.Epoch && at.Offset > s.begun.Offset && isRed(data) && !s.got[at] {
			b.fail("%s: has not got %s of %s at %d", user, data, ch, at.Offset)
		}
	}
}

// gotFiltered is a publication that passed a filter.
func (b *book) gotFiltered(s *subscriptionBook, user, ch, data string, at client.StreamPosition) {
	if !isRed(data) {
		b.fail("%s: got %s of %s, which the filter does not let through", user, data, ch)
	}
	s.got[at] = true
}

// roster shows, at the end, the clients that are subscribed to the channel that it is about.
func (b *book) roster(ch string, entries map[string]string) {
	of := ch[len(roster):]
	want := map[string]bool{}
	for k, s := range b.subs {
		if k[1] == of && s.active && b.clients[k[0]] != "" {
			want[b.clients[k[0]]] = true
			if _, ok := entries[b.clients[k[0]]]; !ok {
				b.fail("%s is subscribed to %s, and not in its map of clients", k[0], of)
			}
		}
	}
	for id := range entries {
		if !want[id] {
			b.fail("%s is in the map of the clients of %s, and not subscribed", id, of)
		}
	}
}
