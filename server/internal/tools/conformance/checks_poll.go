package conformance

import (
	"bytes"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func (t *trial) poller(ch string) *client {
	c := t.Connect()
	r := c.SubscribeWith(ch, probe.Polled)
	t.Want(r.Type == 4 && !r.Recoverable, "the result has the type %d, recoverable %t, expected type 4 and no recovery", r.Type, r.Recoverable)
	return c
}

func (t *trial) track(ch string, version uint64, ttl time.Duration, keys ...string) *protocol.Command {
	b := &protocol.TrackBatch{Signature: t.SignKeys(ch, keys, ttl)}
	for _, key := range keys {
		b.Items = append(b.Items, &protocol.KeyedItem{Key: key, Version: version})
	}
	return &protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: ch, Type: 1, Track: []*protocol.TrackBatch{b}}}
}

func (t *trial) change(ch, key string, version int) {
	t.Backend("shared_poll_publish", map[string]any{"channel": ch, "key": key, "version": version, "data": probe.Raw(t.Data(version))})
}

func (t *trial) value(c *client, key string, version int) {
	p := c.Publication("of a value").Pub
	t.Want(p.Key == key && p.Version == uint64(version), "version %d of the key %q comes, expected version %d of %q", p.Version, p.Key, version, key)
	t.Want(bytes.Equal(p.Data, t.Data(version)), "the value is %s, expected %s", p.Data, t.Data(version))
}

func pollChecks() []check {
	const section = "protocol-rules.md#shared-poll"
	const needs = polled | api | signsKeys
	return []check{
		{"poll.track", section, "who tracks keys gets their values with key and version, and no others", needs, func(t *trial) {
			ch := t.Channel()
			c, other := t.poller(ch), t.poller(ch)
			c.OK(t.track(ch, 0, time.Hour, "a", "b"))
			other.OK(t.track(ch, 0, time.Hour, "c"))
			t.change(ch, "c", 1)
			t.value(other, "c", 1)
			t.change(ch, "b", 2)
			t.change(ch, "a", 3)
			t.value(c, "b", 2)
			t.value(c, "a", 3)
			other.Still("a value of a key that is not tracked", probe.IsPub)
		}},
		{"poll.versions", section, "a version comes only if it is above the one before, and above the one that the client holds", needs, func(t *trial) {
			ch := t.Channel()
			c, late := t.poller(ch), t.poller(ch)
			c.OK(t.track(ch, 0, time.Hour, "a"))
			t.change(ch, "a", 5)
			t.change(ch, "a", 3)
			t.change(ch, "a", 6)
			t.value(c, "a", 5)
			t.value(c, "a", 6)
			for _, p := range late.OK(t.track(ch, 6, time.Hour, "a")).SubRefresh.Items {
				t.Want(p.Version > 6, "the reply has version %d, and the client holds 6", p.Version)
			}
			t.change(ch, "a", 7)
			t.value(late, "a", 7)
			t.value(c, "a", 7)
		}},
		{"poll.untrack", section, "what is not tracked any more does not come", needs, func(t *trial) {
			ch := t.Channel()
			c := t.poller(ch)
			c.OK(t.track(ch, 0, time.Hour, "a", "b"))
			c.OK(&protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: ch, Type: 2, Untrack: []string{"a"}}})
			t.change(ch, "a", 1)
			t.change(ch, "b", 2)
			t.value(c, "b", 2)
			c.Still("a value of a key that is not tracked any more", probe.IsPub)
		}},
		{"poll.signature", section, "a signature that is not for these keys and this channel is error 103, one that has expired 109, no key 107", needs, func(t *trial) {
			ch := t.Channel()
			c := t.poller(ch)
			other := t.track(ch, 0, time.Hour, "a")
			other.SubRefresh.Track[0].Items[0].Key = "b"
			c.Refused(other, 103)
			elsewhere := t.track(ch+"x", 0, time.Hour, "a")
			elsewhere.SubRefresh.Channel = ch
			c.Refused(elsewhere, 103)
			c.Refused(t.track(ch, 0, -time.Hour, "a"), 109)
			c.Refused(t.track(ch, 0, time.Hour, ""), 107)
			t.Connect().Refused(t.track(ch, 0, time.Hour, "a"), 103)
			c.OK(t.track(ch, 0, time.Hour, "a"))
		}},
	}
}
