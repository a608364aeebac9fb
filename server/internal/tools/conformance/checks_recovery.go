package conformance

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func positionChecks() []check {
	const section = "protocol-rules.md#positions"
	return []check{
		{"positions.new", section, "a channel that nobody has used has an epoch, and offset 0", stream | positions, func(t *trial) {
			r := t.Connect().Subscribe(t.Channel())
			t.Want(r.Epoch != "" && r.Offset == 0, "the position is %d of %q", r.Offset, r.Epoch)
		}},
		{"positions.count", section, "offsets count from 1 by one; all see the same; the epoch stays", stream | positions | published, func(t *trial) {
			h := t.fill(3)
			other := t.Connect()
			r := other.Subscribe(h.channel)
			t.Want(r.Offset == 3 && r.Epoch == h.epoch, "a second subscriber is at %d of %q, expected 3 of %q", r.Offset, r.Epoch, h.epoch)
			h.more(2)
			for _, offset := range []uint64{4, 5} {
				p := other.Publication(fmt.Sprint(offset))
				t.Want(p.Pub.Offset == offset, "offset %d comes, expected %d", p.Pub.Offset, offset)
				h.check([]*protocol.Publication{p.Pub})
			}
		}},
		{"positions.epochs", section, "the epoch of a publication comes with offset 1 alone", stream | positions | published, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			r := c.Subscribe(ch)
			for n := range 2 {
				t.Publish(c, ch, t.Data(n))
				p := c.Publication(fmt.Sprint(n + 1)).Pub
				t.Want(p.Epoch == "" || p.Offset == 1 && p.Epoch == r.Epoch, "publication %d has the epoch %q", p.Offset, p.Epoch)
			}
		}},
	}
}

const recovery = "protocol-rules.md#recovery"

func recoveryCheck(name, rule string, run func(t *trial, h *testStream, c *client)) check {
	return check{"recovery." + name, recovery, rule, stream | recovers | published, func(t *trial) { run(t, t.fill(5), t.Connect()) }}
}

func recoveryChecks() []check {
	row := recoveryCheck
	return []check{
		row("missed", "what was missed comes with the reply, in order, and the offset is that of the request", func(t *trial, h *testStream, c *client) {
			h.recovered(c, 2, h.epoch, 3, 4, 5)
			h.more(1)
			p := c.Publication("after the recovered ones")
			t.Want(p.Pub.Offset == 6, "the first publication after recovery has the offset %d, expected 6", p.Pub.Offset)
		}),
		row("nothing_missed", "who has missed nothing recovers without publications", func(t *trial, h *testStream, c *client) {
			h.recovered(c, 5, h.epoch)
		}),
		row("from_zero", "offset 0 recovers the whole stream, while it is there", func(t *trial, h *testStream, c *client) {
			h.recovered(c, 0, h.epoch, 1, 2, 3, 4, 5)
		}),
		row("no_epoch", "an empty epoch is not compared", func(t *trial, h *testStream, c *client) {
			h.recovered(c, 3, "", 4, 5)
		}),
		row("empty_stream", "offset 0 of a stream without publications recovers", func(t *trial, h *testStream, c *client) {
			ch := t.Channel()
			epoch := h.c.Subscribe(ch).Epoch
			r := c.Recover(ch, 0, epoch)
			t.Want(r.Recovered && len(r.Publications) == 0, "recovered is %t, with %d publications", r.Recovered, len(r.Publications))
		}),
		row("other_epoch", "another epoch does not recover", func(t *trial, h *testStream, c *client) { h.lost(c, 3, "another") }),
		row("sentinel", "the epoch _ of clients that have no position does not recover", func(t *trial, h *testStream, c *client) { h.lost(c, 0, "_") }),
		row("ahead", "an offset above the top does not recover", func(t *trial, h *testStream, c *client) { h.lost(c, 6, h.epoch) }),
	}
}

func lossChecks() []check {
	row := recoveryCheck
	return []check{
		row("trimmed", "what the stream does not keep any more, or is too much, does not recover; never a part", func(t *trial, h *testStream, c *client) {
			for h.top < 520 {
				for range 32 {
					h.top++
					t.Publish(h.c, h.channel, t.Data(int(h.top)))
				}
				h.c.Pending = nil
				r := c.Recover(h.channel, 1, h.epoch)
				if !r.Recovered {
					h.checkLost(r)
					h.recovered(t.Connect(), h.top-2, h.epoch, h.top-1, h.top)
					return
				}
				t.Want(len(r.Publications) == int(h.top)-1, "recovered has %d of %d publications", len(r.Publications), h.top-1)
				c.Leave(h.channel)
				c.Pending = nil
			}
			t.Skip("the server recovers %d publications", h.top-1)
		}),
		row("reject", "with flag 2, a position that does not recover is error 112, and one that does is not", func(t *trial, h *testStream, c *client) {
			reject := func(offset uint64, epoch string) *protocol.Command {
				return t.Request(h.channel, func(r *protocol.SubscribeRequest) {
					probe.From(offset, epoch)(r)
					r.Flag = 2
				})
			}
			c.Refused(reject(3, "another"), 112)
			c.Refused(reject(99, h.epoch), 112)
			r := c.OK(reject(3, h.epoch)).Subscribe
			t.Want(r != nil && r.Recovered && slices.Equal(offsetsOf(r.Publications), []uint64{4, 5}), "a good position does not recover")
		}),
		row("live_after_loss", "after a position that does not recover, publications go on from the top", func(t *trial, h *testStream, c *client) {
			h.lost(c, 3, "another")
			h.more(1)
			p := c.Publication("after the loss")
			t.Want(p.Pub.Offset == 6, "the first publication has the offset %d, expected 6", p.Pub.Offset)
		}),
		{"recovery.race", recovery, "what is published while a client comes back is seen once: in the reply or after it", stream | recovers | publishes, func(t *trial) {
			h, c := t.fill(1), t.Connect()
			at := h.top
			for range 12 {
				var cmds []*protocol.Command
				for range 1 + t.random.IntN(5) {
					h.top++
					cmds = append(cmds, h.c.Numbered(probe.Publish(h.channel, t.Data(int(h.top)))))
				}
				h.c.Send(cmds...)
				r := c.Recover(h.channel, at, h.epoch)
				t.Want(r.Recovered && r.Offset == at, "recovered is %t, with offset %d; expected %d", r.Recovered, r.Offset, at)
				for _, p := range r.Publications {
					t.Want(p.Offset == at+1, "in the reply, offset %d follows %d", p.Offset, at)
					at++
				}
				h.check(r.Publications)
				for at < h.top {
					p := c.Publication(fmt.Sprint(at + 1)).Pub
					t.Want(p.Offset == at+1, "offset %d follows %d", p.Offset, at)
					h.check([]*protocol.Publication{p})
					at++
				}
				for _, cmd := range cmds {
					h.c.Succeeded(h.c.Reply(cmd.ID))
				}
				c.Leave(h.channel)
			}
		}},
		{"recovery.cache", "protocol-rules.md#cache-mode", "in cache mode, recovery gives the latest publication alone, and none to who has it", stream | caches | published, func(t *trial) {
			h, c := t.fill(3), t.Connect()
			h.recovered(c, 1, h.epoch, 3)
			c.Leave(h.channel)
			h.recovered(c, 3, h.epoch)
			c.Leave(h.channel)
			r := c.Recover(h.channel, 7, "another")
			t.Want(r.Recovered && slices.Equal(offsetsOf(r.Publications), []uint64{3}), "a foreign position gives the publications %v, expected 3", offsetsOf(r.Publications))
			t.Want(r.Epoch == h.epoch && r.Offset < 3, "the result has the position %d of %q, expected one before the publication, 3 of %q", r.Offset, r.Epoch, h.epoch)
		}},
	}
}

func (h *testStream) recovered(c *client, offset uint64, epoch string, offsets ...uint64) {
	r := c.Recover(h.channel, offset, epoch)
	h.c.Want(r.WasRecovering && r.Recovered, "from %d of %q: was_recovering is %t, recovered %t", offset, epoch, r.WasRecovering, r.Recovered)
	h.c.Want(slices.Equal(offsetsOf(r.Publications), offsets), "from %d of %q: the offsets are %v, expected %v", offset, epoch, offsetsOf(r.Publications), offsets)
	h.c.Want(r.Offset == offset && r.Epoch == h.epoch, "from %d of %q: the result has the position %d of %q", offset, epoch, r.Offset, r.Epoch)
	h.check(r.Publications)
}

func (h *testStream) lost(c *client, offset uint64, epoch string) {
	h.checkLost(c.Recover(h.channel, offset, epoch))
}

func (h *testStream) checkLost(r *protocol.SubscribeResult) {
	h.c.Want(!r.Recovered, "a position that cannot be recovered is recovered")
	h.c.Want(r.WasRecovering, "the result does not have was_recovering")
	h.c.Want(len(r.Publications) == 0, "a result that is not recovered has the publications %v", offsetsOf(r.Publications))
	h.c.Want(r.Offset == h.top && r.Epoch == h.epoch, "the result has the position %d of %q, expected the top, %d of %q", r.Offset, r.Epoch, h.top, h.epoch)
}

// long is a payload with characters of several bytes. Most of it is the same for each n.
func (t *trial) long(n int) []byte {
	return fmt.Appendf(nil, `{"name":"%s","text":"Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich — 😀","value":%d,"as text":"%[2]d\n\"é\u00e9\""}`, t.Name, n)
}

func deltaChecks() []check {
	const section = "protocol-rules.md#deltas"
	const needs = stream | deltas | positions | published
	ask := func(r *protocol.SubscribeRequest) { r.Delta = probe.Fossil }
	send := func(t *trial, c *client, ch string, n int) {
		if t.API != nil {
			t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.long(n)), "delta": true})
			return
		}
		t.Publish(c, ch, t.long(n))
	}
	return []check{
		{"deltas.live", section, "patches give the payloads; the first publication is whole; in JSON, data is a string", needs, func(t *trial) {
			c, plain, ch := t.Connect(), t.Connect(), t.Channel()
			t.Want(c.SubscribeWith(ch, ask).Delta, "the result does not have delta")
			plain.Subscribe(ch)
			var w probe.Whole
			patches := 0
			for n := range 6 {
				send(t, plain, ch, n)
				p := c.Publication(fmt.Sprint(n + 1)).Pub
				t.Want(n > 0 || !p.Delta, "the first publication is a patch")
				if p.Delta {
					patches++
				}
				got, err := w.Restore(t.Encoding, p)
				t.Want(err == nil, "publication %d: %v", n+1, err)
				t.Want(bytes.Equal(got, t.long(n)), "publication %d gives %s, expected %s", n+1, got, t.long(n))
				other := plain.Publication(fmt.Sprint(n+1, " without deltas")).Pub
				t.Want(!other.Delta && bytes.Equal(other.Data, t.long(n)), "a subscriber that asked for no deltas gets the data %s", other.Data)
			}
			if patches == 0 {
				t.Skip("the server agreed to deltas, and sent none")
			}
		}},
		{"deltas.recovery", section, "recovered publications build on each other, the first is whole, and live ones go on from the last", needs | recovers, func(t *trial) {
			c, other, ch := t.Connect(), t.Connect(), t.Channel()
			epoch := other.Subscribe(ch).Epoch
			for n := range 4 {
				send(t, other, ch, n)
				other.Publication(fmt.Sprint(n + 1))
			}
			r := c.SubscribeWith(ch, func(r *protocol.SubscribeRequest) {
				ask(r)
				probe.From(1, epoch)(r)
			})
			t.Want(r.Delta && r.Recovered && slices.Equal(offsetsOf(r.Publications), []uint64{2, 3, 4}), "delta is %t, recovered %t, with the offsets %v", r.Delta, r.Recovered, offsetsOf(r.Publications))
			t.Want(!r.Publications[0].Delta, "the first recovered publication is a patch")
			send(t, other, ch, 4)
			pubs := append(r.Publications, c.Publication("5").Pub)
			var w probe.Whole
			for n, p := range pubs {
				got, err := w.Restore(t.Encoding, p)
				t.Want(err == nil, "publication %d: %v", p.Offset, err)
				t.Want(bytes.Equal(got, t.long(n+1)), "publication %d gives %s, expected %s", p.Offset, got, t.long(n+1))
			}
		}},
		{"deltas.history", section, "history has whole payloads", needs | keeps, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.SubscribeWith(ch, ask)
			for n := range 3 {
				send(t, c, ch, n)
				c.Publication(fmt.Sprint(n + 1))
			}
			for n, p := range c.OK(probe.History(protocol.HistoryRequest{Channel: ch, Limit: 10})).History.Publications {
				t.Want(!p.Delta && bytes.Equal(p.Data, t.long(n)), "publication %d has the data %s, expected %s", n+1, p.Data, t.long(n))
			}
		}},
	}
}
