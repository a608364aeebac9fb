package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client"
)

// subscribe makes a subscription: the client does, or the backend for a channel of the server.
func (r *run) subscribe(m *machine, u program, ch string) {
	if !kindOf(ch).server {
		u.subscribe(ch)
		return
	}
	r.book.attempts[[2]string{ch, u.user().name}]++
	r.command(m, u.user(), "give", ch, 0)
}

func (r *run) unsubscribe(m *machine, u program, ch string) {
	if !kindOf(ch).server {
		u.unsubscribe(ch)
		return
	}
	r.command(m, u.user(), "take away", ch, 1)
}

// swamp has a backend publish more to a client that reads nothing than its queue may have.
func (r *run) swamp(c *conn) {
	open := slices.DeleteFunc(slices.Clone(r.plan.Names), func(ch string) bool {
		return !r.book.sub(c.user, ch).active || kindOf(ch).changes != nil || derived(ch)
	})
	if len(open) == 0 || r.queue() > 16<<10 {
		return
	}
	for i := range 2 + r.queue()>>10 {
		r.after(time.Duration(i)*time.Millisecond, "swamp", func() {
			r.count++
			data := fmt.Sprintf(`{"id":"backend-%d","text":"%s"}`, r.count, noise(stream(r.plan.Seed, fmt.Sprint("noise ", r.count))))
			r.book.tried(open[0], data)
			r.attempt(c.node, open[0], data, 0)
		})
	}
	r.after(2*time.Second, c.name, c.read)
}

// noise is a text without a part that another noise has, so that a patch between two is as long as the text.
func noise(chance *rand.Rand) string {
	text := make([]byte, 1000)
	for i := range text {
		text[i] = 'a' + byte(chance.IntN(26))
	}
	return string(text)
}

// Publications of backends have these names if their streams do not keep them, or if they have a version.
const (
	passing   = "passing"
	versioned = "versioned"
)

func passes(data string) bool { return strings.HasPrefix(data, `{"id":"`+passing) }

// publishOptions of a backend's publication at a machine. Its number is the version.
func (r *run) publishOptions(m *machine, ch, data string) *gyro.PublishOptions {
	o := &gyro.PublishOptions{IdempotencyKey: data, Tags: tags(data), SkipHistory: passes(data), Delta: kindOf(ch).history.HistorySize > 0}
	if _, err := fmt.Sscanf(data, `{"id":"`+versioned+`-%d`, &o.Version); err != nil {
		o.Version = 0
	}
	m.editions[ch].keep(ch, o)
	return o
}

// write is a change of a map by a backend.
type write struct {
	ch      string
	pub     channel.Publication
	options channel.MapOptions
}

// change has the backend change a map. number chooses the key and the condition.
func (r *run) change(m *machine, ch string, number int) {
	r.count++
	data := fmt.Sprintf(`{"id":"backend-%d","text":"the same in all publications, so that deltas are small"}`, r.count)
	w := write{ch, channel.Publication{Key: fmt.Sprint("k", number%12), Data: []byte(data)}, *kindOf(ch).changes}
	w.options.IdempotencyKey = data
	switch number / 12 % 8 {
	case 0:
		w.options.KeyMode, w.options.RefreshTTL = channel.KeyIfNew, true
	case 1:
		w.options.KeyMode = channel.KeyIfExists
	case 2, 3:
		w.pub.Data, w.pub.Removed = nil, true
	case 4:
		if !w.options.Ephemeral() {
			w.pub.Version = uint64(r.count)
		}
	}
	r.set(m, w)
}

func (r *run) set(m *machine, w write) {
	if !w.pub.Removed {
		r.book.tried(w.ch, changeText(w.pub.Key, string(w.pub.Data), false))
	}
	r.write(m, w, 0)
}

func (r *run) write(m *machine, w write, attempt int) {
	if m.down {
		return
	}
	node := m.node
	text, began := changeText(w.pub.Key, string(w.pub.Data), w.pub.Removed), r.now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		pub := w.pub
		res, err := node.Maps().Change(ctx, w.ch, &pub, w.options)
		r.tell("backend "+w.options.IdempotencyKey, func() {
			r.log.add("backend", "changed %s of %s: %d of %s, %s %v", text, w.ch, res.Position.Offset, res.Position.Epoch, res.Suppressed, err)
			r.calm.called("change "+text, began, err)
			switch {
			case err != nil && attempt < 3:
				r.after(time.Second, "backend "+w.options.IdempotencyKey, func() { r.write(r.machines[(attempt+1)%len(r.machines)], w, attempt+1) })
			case err != nil:
			case res.Suppressed == "" || res.Suppressed == channel.SuppressIdempotency:
				r.book.acknowledged(w.ch, text, client.StreamPosition(res.Position))
				r.calm.published(w.ch, text, began)
			case attempt == 0:
				r.book.suppressed(w.ch, text)
			}
		})
	}()
}

// change has the client change a map.
func (u *user) change(ch string, number int) {
	u.r.count++
	key, removed := fmt.Sprint("k", number%12), number/12%4 == 0
	data := fmt.Sprintf(`{"id":"%s-%d","text":"the same in all publications, so that deltas are small"}`, u.name, u.r.count)
	id, began := data, u.r.now()
	if removed {
		data = ""
	} else {
		u.r.book.tried(ch, changeText(key, data, false))
	}
	go func() {
		var err error
		if removed {
			err = u.c.DeleteKey(context.Background(), ch, key)
		} else {
			err = u.c.SetKey(context.Background(), ch, key, []byte(data))
		}
		u.r.tell("user "+u.name+" change "+id, func() {
			u.r.log.add(u.name, "changed %s of %s: %v", changeText(key, data, removed), ch, err)
			u.r.calm.called("change of "+id, began, err)
			if err == nil && !removed {
				u.r.calm.published(ch, changeText(key, id, false), began)
			}
		})
	}()
}

// probe publishes to channels whose subscribers can only learn of a loss by silence.
func (r *run) probe() {
	for _, ch := range r.plan.Names {
		if kindOf(ch).sequence != unnumbered {
			continue
		}
		r.count++
		data := fmt.Sprintf(`{"id":"probe-%d"}`, r.count)
		m := r.machines[r.count%len(r.machines)]
		if o := kindOf(ch).changes; o != nil {
			w := write{ch, channel.Publication{Key: "probe", Data: []byte(data)}, *o}
			w.options.IdempotencyKey = data
			r.set(m, w)
			continue
		}
		r.book.tried(ch, data)
		r.book.expect(ch, data)
		r.attempt(m, ch, data, 0)
	}
}

// content reads the position of a channel, and the entries of a map by their keys.
func (r *run) content(n *gyro.Node, ch string) (client.StreamPosition, map[string]string, error) {
	if kindOf(ch).changes == nil {
		if kindOf(ch).history.HistorySize == 0 {
			return client.StreamPosition{}, nil, nil
		}
		h, err := n.History(context.Background(), ch, &gyro.HistoryFilter{})
		return client.StreamPosition(h.Top), nil, err
	}
	entries := map[string]string{}
	st, err := n.Maps().State(context.Background(), ch, channel.StateFilter{Limit: -1})
	for _, e := range st.Entries {
		entries[e.Key] = string(e.Data)
	}
	return client.StreamPosition(st.Top), entries, err
}

// deserted checks that a node without clients has left all channels at the engine, but for the maps that it keeps.
func (r *run) deserted(m *machine) {
	l, is := m.link.(*link)
	if !is || r.plan.Cached {
		return
	}
	for _, ch := range slices.Sorted(maps.Keys(l.subscribed)) {
		if !slices.Contains(r.plan.Names, whole+ch) {
			r.fail("%s: is subscribed to %s at the engine when all clients have gone", m.name, ch)
		}
	}
}

// idle asks the nodes for clients, channels and presence when all clients have gone. There must be none.
func (r *run) idle() {
	waiting := 0
	for _, m := range r.machines {
		waiting++
		go func() {
			nodes, err := m.node.Cluster().Nodes(context.Background())
			r.tell("idle "+m.name, func() {
				waiting--
				if err != nil {
					r.fail("%s: it tells nothing about itself: %v", m.name, err)
					return
				}
				r.deserted(m)
				if n := nodes[0]; n.NumClients != 0 || n.NumUsers != 0 || n.NumChannels != 0 || n.NumSubs != 0 {
					r.fail("%s: %d clients, %d users, %d channels and %d subscriptions are left", m.name, n.NumClients, n.NumUsers, n.NumChannels, n.NumSubs)
				}
			})
		}()
	}
	for _, ch := range r.plan.Names {
		waiting++
		go func() {
			n := r.machines[0].node
			_, entries, err := r.content(n, ch)
			clients, err2 := n.Presence(context.Background(), ch)
			r.tell("idle "+ch, func() {
				waiting--
				if err != nil || err2 != nil {
					r.fail("%s has no content: %v, no presence: %v", ch, err, err2)
				}
				if len(clients) > 0 || strings.HasPrefix(ch, roster) && len(entries) > 0 {
					r.fail("%d clients are present in %s when all have gone, and %d in a map", len(clients), ch, len(entries))
				}
			})
		}()
	}
	r.scheduler.run(r.now() + time.Second)
	if waiting > 0 {
		r.fail("%d questions about what is left have no answer", waiting)
	}
}
