package gyro

import (
	"sync"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/protocol"
)

// PublishOptions say what becomes of a publication; WithPublishOptions makes an option of
// Node.Publish of it.
type PublishOptions = channel.PublishOptions

// PublishOption changes one aspect of a publish.
type PublishOption interface{ applyPublish(*PublishOptions) }

type publishOption func(*PublishOptions)

func (f publishOption) applyPublish(o *PublishOptions) { f(o) }

type publishOptions PublishOptions

func (o *publishOptions) applyPublish(dst *PublishOptions) { *dst = PublishOptions(*o) }

// WithPublishOptions sets all options at once.
func WithPublishOptions(o PublishOptions) PublishOption { return (*publishOptions)(&o) }

// WithHistory keeps the publication in the channel's stream: the latest size
// publications, for ttl after the last of them. Both must be > 0.
func WithHistory(size int, ttl time.Duration) PublishOption {
	return publishOption(func(o *PublishOptions) { o.HistorySize, o.HistoryTTL = size, ttl })
}

// WithHistoryMetaTTL sets how long a stream's offset and epoch outlive its last
// use. The broker's default (30 days) applies without it.
func WithHistoryMetaTTL(ttl time.Duration) PublishOption {
	return publishOption(func(o *PublishOptions) { o.HistoryMetaTTL = ttl })
}

// WithIdempotencyKey suppresses a second publish of the same key into the same
// channel within 300 s; its result is that of the first.
func WithIdempotencyKey(key string) PublishOption {
	return publishOption(func(o *PublishOptions) { o.IdempotencyKey = key })
}

// WithVersion suppresses the publish unless version is greater than the last
// one of the stream with the same epoch (recovery.md 3.2). It needs history.
func WithVersion(version uint64, epoch string) PublishOption {
	return publishOption(func(o *PublishOptions) { o.Version, o.VersionEpoch = version, epoch })
}

// WithTags attaches tags, which subscribers can filter by.
func WithTags(tags map[string]string) PublishOption {
	return publishOption(func(o *PublishOptions) { o.Tags = tags })
}

// WithDelta sends subscribers that negotiated it only the difference to the
// previous publication. It needs history.
func WithDelta() PublishOption {
	return publishOption(func(o *PublishOptions) { o.Delta = true })
}

// WithPublisher publishes on behalf of a client.
func WithPublisher(info *channel.ClientInfo) PublishOption {
	return publishOption(func(o *PublishOptions) { o.Info = info })
}

func gather(opts []PublishOption) PublishOptions {
	if len(opts) == 0 {
		return PublishOptions{}
	}
	p := gathered.Get().(*PublishOptions)
	for _, opt := range opts {
		opt.applyPublish(p)
	}
	o := *p
	*p = PublishOptions{}
	gathered.Put(p)
	return o
}

// gathered are options in the making: a variable whose address options get would be
// allocated for each publication.
var gathered = sync.Pool{New: func() any { return new(PublishOptions) }}

// SubscribeOptions say how a subscription behaves; WithSubscribeOptions makes an
// option of Node.Subscribe of it.
type SubscribeOptions = channel.SubscribeOptions

type (
	// SubscribeOption is an option of Node.Subscribe.
	SubscribeOption interface{ applySubscribe(*control.Subscribe) }
	// UnsubscribeOption is an option of Node.Unsubscribe.
	UnsubscribeOption interface{ applyUnsubscribe(*control.Unsubscribe) }
	// DisconnectOption is an option of Node.Disconnect.
	DisconnectOption interface{ applyDisconnect(*control.Disconnect) }
	// RefreshOption is an option of Node.Refresh.
	RefreshOption interface{ applyRefresh(*control.Refresh) }
	// TargetOption narrows the connections of a user; every operation by user
	// takes it.
	TargetOption interface {
		SubscribeOption
		UnsubscribeOption
		DisconnectOption
		RefreshOption
	}
)

type targetOption func(client, session *string)

func (f targetOption) applySubscribe(m *control.Subscribe)     { f(&m.Client, &m.Session) }
func (f targetOption) applyUnsubscribe(m *control.Unsubscribe) { f(&m.Client, &m.Session) }
func (f targetOption) applyDisconnect(m *control.Disconnect)   { f(&m.Client, &m.Session) }
func (f targetOption) applyRefresh(m *control.Refresh)         { f(&m.Client, &m.Session) }

// WithClient keeps only the connection with this client ID. Empty: no effect.
func WithClient(id string) TargetOption {
	return targetOption(func(client, _ *string) { *client = id })
}

// WithSession keeps only the connection with this session ID, a secret that clients of
// emulated and one-way transports have from their connect result; others have none. Empty:
// no effect.
func WithSession(id string) TargetOption {
	return targetOption(func(_, session *string) { *session = id })
}

type subscribeOption SubscribeOptions

func (o subscribeOption) applySubscribe(m *control.Subscribe) { m.SetOptions((*SubscribeOptions)(&o)) }

// WithSubscribeOptions sets how the new subscription behaves.
func WithSubscribeOptions(o SubscribeOptions) SubscribeOption { return subscribeOption(o) }

type unsubscribeOption protocol.Unsubscribe

func (o unsubscribeOption) applyUnsubscribe(m *control.Unsubscribe) {
	m.Code, m.Reason = o.Code, o.Reason
}

// WithUnsubscribe sets code and reason of the push; the default is 2000 "server
// unsubscribe". From code 2500 clients subscribe again.
func WithUnsubscribe(u protocol.Unsubscribe) UnsubscribeOption { return unsubscribeOption(u) }

type disconnectOption func(*control.Disconnect)

func (f disconnectOption) applyDisconnect(m *control.Disconnect) { f(m) }

// WithDisconnect sets code and reason; the default is 3503 "force disconnect".
func WithDisconnect(d protocol.Disconnect) DisconnectOption {
	return disconnectOption(func(m *control.Disconnect) { m.Code, m.Reason = d.Code, d.Reason })
}

// WithWhitelist spares the connections with these client IDs.
func WithWhitelist(clients ...string) DisconnectOption {
	return disconnectOption(func(m *control.Disconnect) { m.Whitelist = clients })
}

type refreshOption func(*control.Refresh)

func (f refreshOption) applyRefresh(m *control.Refresh) { f(m) }

// WithExpireAt sets a new expiration, a Unix time in seconds; 0 (the default)
// means that the connection never expires from now on, a time in the past that
// it is closed with 3005.
func WithExpireAt(unix int64) RefreshOption {
	return refreshOption(func(m *control.Refresh) { m.ExpireAt = unix })
}

// WithExpired closes the connections with 3005 now.
func WithExpired() RefreshOption {
	return refreshOption(func(m *control.Refresh) { m.Expired = true })
}

// WithInfo replaces the connection info, if an expiration in the future is set
// as well.
func WithInfo(info []byte) RefreshOption {
	return refreshOption(func(m *control.Refresh) { m.Info = info })
}

// HistoryOption is an option of Node.History.
type HistoryOption interface{ applyHistory(*HistoryFilter) }

type historyOption func(*HistoryFilter)

func (f historyOption) applyHistory(h *HistoryFilter) { f(h) }

// WithLimit returns at most n publications; n < 0 all. The default 0 returns
// the position only.
func WithLimit(n int) HistoryOption {
	return historyOption(func(h *HistoryFilter) { h.Limit = n })
}

// WithSince returns the publications after p (with WithReverse: before p). An
// epoch other than the stream's is answered with ErrorUnrecoverablePosition.
func WithSince(p channel.StreamPosition) HistoryOption {
	return historyOption(func(h *HistoryFilter) { h.Since = &p })
}

// WithReverse returns the newest first.
func WithReverse() HistoryOption {
	return historyOption(func(h *HistoryFilter) { h.Reverse = true })
}

// WithMetaTTL is how long the read prolongs the life of offset and epoch.
func WithMetaTTL(ttl time.Duration) HistoryOption {
	return historyOption(func(h *HistoryFilter) { h.MetaTTL = ttl })
}
