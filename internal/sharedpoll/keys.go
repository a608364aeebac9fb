package sharedpoll

import (
	"cmp"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Loop has trackers.
type Loop struct {
	Hub   *hub.Hub
	Index int
	Table *Table
}

type Owner interface {
	hub.Subscriber
	Send(d *hub.Delivery, form hub.Form)
	// Reset ends the subscription, whose versions mean nothing any more.
	Reset()
}

// Keys are the keys of a channel that one client tracks, and send it the newest values. Only the client's loop uses
// them.
type Keys struct {
	loop    *Loop
	owner   Owner
	name    string
	opts    *channel.SharedPoll
	channel *Channel
	keys    map[string]*tracker
	// expires is when the first key expires, in seconds of the loop's clock; 0: none does.
	expires    int64
	generation uint32
	form       hub.Form
}

// tracker is a key that a client tracks. There are very many of them.
type tracker struct {
	keys       *Keys
	membership hub.Membership
	version    uint64
	expires    uint32 // seconds of the loop's clock; 0: never
	full       bool   // the client has got a value on this connection
}

// NewKeys returns no keys yet, in a channel that they hold until End.
func NewKeys(loop *Loop, owner Owner, ch string, opts *channel.SharedPoll) *Keys {
	k := &Keys{loop: loop, owner: owner, name: ch, opts: opts, channel: loop.Table.Acquire(ch, opts)}
	return k
}

// Begin is called when the client is subscribed, with the form of its pushes. It returns the epoch for the client.
func (k *Keys) Begin(form hub.Form) (epoch string) {
	k.form = form
	epoch, k.generation = k.channel.Epoch()
	return epoch
}

// End drops all keys. k may be nil.
func (k *Keys) End() {
	if k == nil || k.channel == nil {
		return
	}
	for key, t := range k.keys {
		k.drop(key, t)
	}
	k.loop.Table.Release(k.channel)
	k.channel = nil
}

// Current tells whether a message belongs to the client's generation of versions. k may be nil.
func (k *Keys) Current(m *hub.Message) bool { return k == nil || m.Round == k.generation }

var (
	errNoKeys   = refusal.Because(protocol.ErrorBadRequest, "", "the command names no keys")
	errKey      = refusal.Because(protocol.ErrorBadRequest, "", "a key is empty, or longer than 1024 bytes")
	errTooMany  = refusal.Because(protocol.ErrorLimitExceeded, "SharedPoll.MaxKeys", "the client would track too many keys")
	errNoTrack  = refusal.Because(protocol.ErrorNotAvailable, "SharedPoll.Track", "clients may not track keys in this channel")
	errBadTrack = refusal.Because(protocol.ErrorBadRequest, "", "the command is neither track nor untrack")
)

const (
	typeTrack   = 1
	typeUntrack = 2
)

// Check makes the checks of a command that come before the application's decision.
func (k *Keys) Check(req *protocol.SubRefreshRequest) error {
	switch {
	case req.Type == typeUntrack && len(req.Untrack) == 0:
		return errNoKeys
	case req.Type == typeUntrack:
		req.Track = nil
		return nil
	case req.Type != typeTrack:
		return errBadTrack
	}
	n := 0
	for _, b := range req.Track {
		for _, it := range b.Items {
			if it.Key == "" || len(it.Key) > channel.MaxKeyLength {
				return errKey
			}
		}
		n += len(b.Items)
	}
	switch {
	case n == 0:
		return errNoKeys
	case !k.fits(req, n):
		return errTooMany
	case k.opts.Track == nil:
		return errNoTrack
	}
	return nil
}

func (k *Keys) fits(req *protocol.SubRefreshRequest, n int) bool {
	most := cmp.Or(k.opts.MaxKeys, channel.DefaultMaxKeys)
	if len(k.keys)+n <= most {
		return true
	}
	fresh := make(map[string]bool, n)
	for _, b := range req.Track {
		for _, it := range b.Items {
			if k.keys[it.Key] == nil {
				fresh[it.Key] = true
			}
		}
	}
	n = len(k.keys) + len(fresh)
	gone := make(map[string]bool, len(req.Untrack))
	for _, key := range req.Untrack {
		if !gone[key] && (fresh[key] || k.keys[key] != nil) {
			n--
		}
		gone[key] = true
	}
	return n <= most
}

// Result is the answer to a command; its items are valid until the next use.
type Result struct {
	protocol.SubRefreshResult
	results hub.Results
}

// Take does a command that the application has allowed. now is in ns. expireAt has for each batch the seconds of that clock when
// its keys expire; 0: never. budget is how many bytes of values fit into the reply.
func (k *Keys) Take(req *protocol.SubRefreshRequest, expireAt []int64, now int64, budget int, e protocol.Encoding, r *Result) error {
	n := 0
	for _, b := range req.Track {
		n += len(b.Items)
	}
	if n > 0 && !k.fits(req, n) {
		return errTooMany
	}
	r.SubRefreshResult = protocol.SubRefreshResult{}
	gone := make(map[string]bool, len(req.Untrack))
	for _, key := range req.Untrack {
		gone[key] = true
		if t := k.keys[key]; t != nil {
			k.drop(key, t)
		}
	}
	wants := k.track(req, gone, expireAt)
	for i := range req.Track {
		if at := expireAt[i]; at > 0 {
			ttl := uint32(max(beat.TTL(now, at), 1))
			if !r.Expires || ttl < r.TTL {
				r.Expires, r.TTL = true, ttl
			}
		}
	}
	if len(wants) == 0 {
		return nil
	}
	k.channel.Track(k.loop.Index, wants)
	k.items(wants, budget, e, r)
	return nil
}

// track makes trackers of the keys of a request that are not gone. If batches have the same key, the last one counts.
func (k *Keys) track(req *protocol.SubRefreshRequest, gone map[string]bool, expireAt []int64) []want {
	var wants []want
	index := make(map[string]int)
	for i, b := range req.Track {
		for _, it := range b.Items {
			if gone[it.Key] {
				continue
			}
			t := k.keys[it.Key]
			at, again := index[it.Key]
			if !again {
				at = len(wants)
				index[it.Key] = at
				wants = append(wants, want{Key: it.Key})
			}
			if t == nil {
				t = &tracker{keys: k}
				if k.keys == nil {
					k.keys = make(map[string]*tracker)
				}
				k.keys[it.Key] = t
				wants[at].New = k.loop.Hub.AddKey(k.name, it.Key, t)
			}
			if it.Version != t.version {
				t.full = false // the client has it from elsewhere
			}
			t.version, t.expires = it.Version, uint32(expireAt[i])
			wants[at].Version = it.Version
			if t.expires > 0 && (k.expires == 0 || int64(t.expires) < k.expires) {
				k.expires = int64(t.expires)
			}
		}
	}
	return wants
}

func (k *Keys) items(wants []want, budget int, e protocol.Encoding, r *Result) {
	var pubs []*channel.Publication
	for i := range wants {
		v := wants[i].Value
		if v == nil {
			continue
		}
		if budget -= len(v.Data) + len(v.Key) + overhead; budget < 0 && len(pubs) > 0 {
			k.loop.Hub.Publish(&hub.Message{Channel: k.name, Keyed: true, Round: k.generation, Pub: v})
			continue
		}
		t := k.keys[v.Key]
		t.version, t.full = v.Version, true
		pubs = append(pubs, v)
	}
	r.Items = r.results.Whole(pubs, k.form&hub.Escaped, e)
}

// LeftOut is how many values the result lacks, because they do not fit the client's JSON.
func (r *Result) LeftOut() int { return r.results.LeftOut }

const overhead = 64

// Reset drops the items of a result.
func (r *Result) Reset() {
	r.SubRefreshResult = protocol.SubRefreshResult{}
	r.results.Reset()
}

// Expire drops the keys whose time is over. k may be nil.
func (k *Keys) Expire(now int64) {
	if k == nil || k.expires == 0 {
		return
	}
	now -= int64(cmp.Or(k.opts.KeyGrace, channel.DefaultKeyGrace))
	if now <= k.expires*int64(time.Second) {
		return
	}
	k.expires = 0
	for key, t := range k.keys {
		switch at := int64(t.expires); {
		case at == 0:
		case now > at*int64(time.Second):
			k.drop(key, t)
		case k.expires == 0 || at < k.expires:
			k.expires = at
		}
	}
}

func (k *Keys) Poll() *channel.SharedPoll { return k.opts }

// Len is the number of keys.
func (k *Keys) Len() int { return len(k.keys) }

func (k *Keys) drop(key string, t *tracker) {
	delete(k.keys, key)
	if k.loop.Hub.Remove(t) {
		k.channel.Untrack(k.loop.Index, key)
	}
}

// Membership implements hub.Subscriber.
func (t *tracker) Membership() *hub.Membership { return &t.membership }

// Owner returns the subscription that is blamed for a panic.
func (t *tracker) Owner() hub.Subscriber { return t.keys.owner }

// DeliverAll implements hub.Subscriber.
func (t *tracker) DeliverAll(*hub.Batch) bool { return false }

// Deliver implements hub.Subscriber: it sends a value that is newer than the client's.
func (t *tracker) Deliver(d *hub.Delivery) {
	k, p := t.keys, d.Pub
	switch {
	case t.membership == (hub.Membership{}): // it has ended by a message before
		return
	case !k.Current(d.Message):
		k.owner.Reset()
		return
	case p.Removed:
		k.drop(p.Key, t)
		k.owner.Send(d, k.form)
		return
	case p.Version <= t.version:
		return
	}
	form := k.form
	if form&hub.Escaped != 0 && t.full && d.Prev != nil && d.Prev.Version == t.version {
		form |= hub.Patched
	}
	t.version, t.full = p.Version, true
	k.owner.Send(d, form)
}
