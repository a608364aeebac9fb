package conversation

import (
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/talk"
)

// crowd is a conversation of several clients in one channel, which do not wait for each other. The first only listens:
// all others must receive publications in its order.
type crowd struct {
	*Talk
	name    string
	guests  []*guest
	log     []string        // of the first guest; the offset of the first publication is 1
	sent    map[string]int  // author payload: 1 sent, 2 answered
	last    map[*client]int // the number of the last publication in the log that a client made
	authors map[string]author
	next    int
}

type author struct {
	c *client
	n int
}

type guest struct {
	*client
	crowd *crowd
	sub   uint32 // the id of the subscribe command, while it has no reply; 0: none
	end   uint32 // the id of the unsubscribe command
	live  bool
	seen  bool   // at means something
	at    uint64 // the offset of the last publication
	epoch string
	posts map[uint32]string // payloads by the ids of their commands, until they are answered
	from  uint64            // the offset of the request, if it recovers
	back  bool              // it does
}

// Crowd makes a conversation; with returns, clients lose their connections and come back.
func (t *Talk) Crowd(returns bool) {
	w := &crowd{Talk: t, name: t.Channel(), sent: make(map[string]int), last: make(map[*client]int), authors: make(map[string]author)}
	for range 4 {
		w.guests = append(w.guests, w.guest())
	}
	first := w.guests[0]
	first.come(false)
	first.until("the reply to subscribe", func() bool { return first.live })
	for range t.Steps / 2 {
		for i, g := range w.guests {
			if i > 0 {
				w.act(g, i, returns)
			}
		}
		w.guests[w.Random.IntN(len(w.guests))].settle() // the others go on meanwhile
		for _, g := range w.guests {
			g.listen()
		}
	}
	w.finish()
}

func (w *crowd) guest() *guest {
	return &guest{client: w.Connect(), crowd: w, posts: make(map[uint32]string)}
}

func (w *crowd) act(g *guest, i int, returns bool) {
	busy := g.sub > 0 || g.end > 0
	switch what := w.Random.IntN(10); {
	case returns && what == 0 && g.seen:
		g.Conn.Close()
		again := w.guest()
		again.seen, again.at, again.epoch = true, g.at, g.epoch
		w.guests[i] = again
		again.come(true)
	case busy:
	case !g.live:
		g.come(returns && g.seen)
	case what == 1:
		cmd := g.Numbered(probe.Unsubscribe(w.name))
		g.end = cmd.ID
		g.Send(cmd)
	default:
		var cmds []*protocol.Command
		for range 1 + w.Random.IntN(3) {
			w.next++
			data := w.Data(w.next)
			cmd := g.Numbered(probe.Publish(w.name, data))
			w.sent[string(data)], w.authors[string(data)] = 1, author{g.client, w.next}
			g.posts[cmd.ID] = string(data)
			cmds = append(cmds, cmd)
		}
		g.Send(cmds...)
	}
}

func (g *guest) come(back bool) {
	cmd := g.Numbered(g.Request(g.crowd.name, func(r *protocol.SubscribeRequest) {
		if back {
			probe.From(g.at, g.epoch)(r)
		}
	}))
	g.sub, g.back, g.from = cmd.ID, back, g.at
	g.Send(cmd)
}

func (g *guest) listen() {
	for {
		r, err := g.Take(0)
		switch {
		case errors.Is(err, talk.ErrTimeout):
			return
		case err != nil:
			g.Broke(err, "in the conversation")
		case r != nil:
			g.hear(r)
		}
	}
}

func (g *guest) hear(r *protocol.Reply) {
	switch {
	case r.ID > 0 && r.ID == g.sub:
		g.Succeeded(r)
		g.subscribed(r.Subscribe)
	case r.ID > 0 && r.ID == g.end:
		g.Succeeded(r)
		g.end, g.live = 0, false
	case r.ID > 0:
		g.Succeeded(r)
		g.crowd.sent[g.posts[r.ID]] = 2
		delete(g.posts, r.ID)
	case probe.IsPub(r):
		g.Want(g.live, "publication %d comes to who is not subscribed", r.Push.Pub.Offset)
		g.deliver(r.Push.Pub)
	}
}

func (g *guest) subscribed(r *protocol.SubscribeResult) {
	g.Want(r != nil, "the reply to subscribe has no result")
	g.Want(g.epoch == "" || r.Epoch == g.epoch, "the epoch changes from %q to %q", g.epoch, r.Epoch)
	g.sub, g.live, g.seen, g.epoch = 0, true, true, r.Epoch
	if g.back && r.Recovered {
		g.Want(r.Offset == g.from, "the result has the offset %d, expected that of the request, %d", r.Offset, g.from)
		for _, p := range r.Publications {
			g.deliver(p)
		}
		return
	}
	g.Want(len(r.Publications) == 0, "a result that is not recovered has publications")
	g.at = r.Offset
	if g.back {
		g.Want(r.Offset > g.from, "a client at the top, offset %d, is not recovered", r.Offset)
		g.gone(g.from, r.Offset)
	}
}

func (g *guest) gone(from, top uint64) {
	if !g.crowd.History || top-from > 50 {
		return // it may be gone, or too much
	}
	cmd := g.Numbered(probe.History(protocol.HistoryRequest{Channel: g.crowd.name, Since: probe.Since(from, g.epoch), Limit: 1}))
	g.Send(cmd)
	for {
		r, err := g.Next(g.Timeout)
		switch {
		case err != nil:
			g.Broke(err, "waiting for history")
		case r.ID == cmd.ID:
			g.Succeeded(r)
			g.Want(r.History != nil, "the reply to history has no result")
			pubs := r.History.Publications
			g.Want(len(pubs) == 0 || pubs[0].Offset > from+1, "the publications from offset %d on are not recovered, and history has them", from+1)
			return
		default:
			g.hear(r)
		}
	}
}

func (g *guest) deliver(p *protocol.Publication) {
	w := g.crowd
	g.Want(p.Offset == g.at+1, "offset %d follows %d", p.Offset, g.at)
	g.at = p.Offset
	data := string(p.Data)
	if g == w.guests[0] {
		w.enter(data)
		return
	}
	if i := int(p.Offset) - 1; i < len(w.log) { // else the first guest has not got it yet, and sees it later
		g.Want(w.log[i] == data, "publication %d is %s for one client, and %s for another", p.Offset, data, w.log[i])
	} else {
		g.Want(w.sent[data] > 0, "publication %d is %s, which nobody has published", p.Offset, data)
	}
}

func (w *crowd) enter(data string) {
	author, ok := w.authors[data]
	w.Want(ok, "%s comes twice, or nobody has published it", data)
	w.Want(author.n > w.last[author.c], "publication %d of a client comes behind its publication %d", author.n, w.last[author.c])
	w.last[author.c] = author.n
	delete(w.authors, data)
	w.log = append(w.log, data)
}

func (w *crowd) finish() {
	first := w.guests[0]
	w.next++
	data := string(w.Data(w.next))
	cmd := first.Numbered(probe.Publish(w.name, []byte(data)))
	for _, g := range w.guests { // all commands before the last publication
		g.settle()
	}
	first.posts[cmd.ID] = data
	w.sent[data], w.authors[data] = 1, author{first.client, w.next}
	first.Send(cmd)
	first.until("the last publication", func() bool { return len(w.log) > 0 && w.log[len(w.log)-1] == data && len(first.posts) == 0 })
	for i, g := range w.guests {
		if g.live {
			g.until(fmt.Sprintf("the last publication, %d, at client %d, which is at %d", len(w.log), i+1, g.at), func() bool { return g.at == uint64(len(w.log)) })
		}
	}
	for data := range w.authors {
		w.Want(w.sent[data] < 2, "%s was published and answered, and never delivered", data)
	}
}

func (g *guest) settle() {
	g.until("replies to all commands", func() bool { return len(g.posts) == 0 && g.sub == 0 && g.end == 0 })
}

func (g *guest) until(what string, holds func() bool) {
	for deadline := time.Now().Add(g.Timeout); !holds(); {
		r, err := g.Next(time.Until(deadline))
		switch {
		case errors.Is(err, talk.ErrTimeout):
			g.Fail("%s: not within %v", what, g.Timeout)
		case err != nil:
			g.Broke(err, what)
		default:
			g.hear(r)
		}
	}
}
