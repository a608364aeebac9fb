package clients

import (
	"context"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// Subscribe asks whether the client may subscribe. The client's wishes do not count: namespace and answer decide.
func (b *Backend) Subscribe(ctx context.Context, c *gyro.Client, ch channels.Channel, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	p := b.Proxies.Of(proxy.Subscribe, ch.SubscribeProxyName)
	var res message.SubscribeResponse
	if err := b.ask(b.during(ctx, c), p, c.ID(), e.Channel, fromOf(c), subscription(p, c, e), &res); err != nil {
		return gyro.SubscribeReply{}, err
	}
	o, err := granted(p, ch, channels.SourceSubscribeProxy, res.Result)
	return gyro.SubscribeReply{Options: o, ClientSideRefresh: !ch.SubRefreshProxyEnabled}, err
}

func subscription(p *proxy.Proxy, c *gyro.Client, e gyro.SubscribeEvent) *message.SubscribeRequest {
	req := &message.SubscribeRequest{Channel: e.Channel}
	req.Client, req.Transport, req.Protocol, req.Encoding, req.User, req.Meta = clientFields(p, c)
	req.Labels = labelsOf(c)
	req.Data, req.B64Data = payload(p, e.Data)
	return req
}

// granted returns the options of a subscription that the backend allows; r may be nil.
func granted(p *proxy.Proxy, ch channels.Channel, source channels.Source, r *message.SubscribeResult) (o gyro.SubscribeOptions, err error) {
	o = channels.Subscription(ch, source)
	if r == nil {
		return o, nil
	}
	if o.ChanInfo, err = decoded(p, r.Info, r.B64Info, "b64info"); err != nil {
		return o, err
	}
	if o.Data, err = decoded(p, r.Data, r.B64Data, "b64data"); err != nil {
		return o, err
	}
	if r.ExpireAt > 0 {
		if o.ExpireAt = time.Unix(r.ExpireAt, 0); !o.ExpireAt.After(time.Now()) {
			return o, refusal.Because(protocol.ErrorExpired, p.Key(), "expire_at in the answer of the backend is past")
		}
	}
	channels.Override(&o, auth.OverrideOf(r.Override))
	if o.Rights, err = channel.ParseRights(r.Allow); err != nil {
		return o, refusal.Because(protocol.ErrorInternal, p.Key(), "allow in the answer of the backend: "+err.Error())
	}
	return o, nil
}

// SubRefresh asks whether a subscription lives on. An answer without a result ends it.
func (b *Backend) SubRefresh(ctx context.Context, c *gyro.Client, ch channels.Channel, name string) (gyro.SubRefreshReply, error) {
	p := b.Proxies.Of(proxy.SubRefresh, ch.SubRefreshProxyName)
	req := &message.SubRefreshRequest{Channel: name}
	req.Client, req.Transport, req.Protocol, req.Encoding, req.User, req.Meta = clientFields(p, c)
	req.Labels = labelsOf(c)
	var res message.SubRefreshResponse
	if err := p.Call(b.during(ctx, c), fromOf(c), req, &res); err != nil {
		until, ok := b.prolong(p, c, name, err)
		return gyro.SubRefreshReply{ExpireAt: until, Expired: !ok}, nil
	}
	b.State.unanswered.answered(thing{c.ID(), name})
	r := res.Result
	if r == nil || r.Expired || r.ExpireAt > 0 && r.ExpireAt <= time.Now().Unix() {
		b.Log.Info("the backend does not prolong a subscription: it ends", "client", c.ID(), "channel", name, "key", p.Key())
		return gyro.SubRefreshReply{Expired: true}, nil
	}
	info, err := decoded(p, r.Info, r.B64Info, "b64info")
	if err != nil {
		b.Log.Error("the backend's answer to a refresh of a subscription is not usable: the subscription ends", "client", c.ID(),
			"channel", name, "key", p.Key(), "error", err)
		return gyro.SubRefreshReply{Expired: true}, nil
	}
	reply := gyro.SubRefreshReply{Info: info}
	if r.ExpireAt > 0 {
		reply.ExpireAt = time.Unix(r.ExpireAt, 0)
	}
	return reply, nil
}

// Publish asks for the data and the options with which a client's publication is published.
func (b *Backend) Publish(ctx context.Context, c *gyro.Client, ch channels.Channel, e gyro.PublishEvent) (reply gyro.PublishReply, err error) {
	p := b.Proxies.Of(proxy.Publish, ch.PublishProxyName)
	req := &message.PublishRequest{Channel: e.Channel}
	req.Client, req.Transport, req.Protocol, req.Encoding, req.User, req.Meta = clientFields(p, c)
	req.Labels = labelsOf(c)
	req.Data, req.B64Data = payload(p, e.Data)
	var res message.PublishResponse
	if err := b.ask(b.during(ctx, c), p, c.ID(), e.Channel, fromOf(c), req, &res); err != nil {
		return reply, err
	}
	reply.Options = channels.Publication(ch)
	r := res.Result
	if r == nil {
		return reply, nil
	}
	// Plain data has precedence here; in all other answers, base64 has it.
	if reply.Data = r.Data; reply.Data == nil {
		if reply.Data, err = decoded(p, nil, r.B64Data, "b64data"); err != nil {
			return reply, err
		}
	}
	if reply.Data != nil {
		if err = ch.CheckData(reply.Data); err != nil {
			return reply, err
		}
	}
	o := &reply.Options
	o.Delta, o.Tags = r.Delta, r.Tags
	o.IdempotencyKey, o.Version, o.VersionEpoch = r.IdempotencyKey, r.Version, r.VersionEpoch
	if r.SkipHistory {
		o.HistorySize, o.HistoryTTL, o.SkipHistory = 0, 0, true
	}
	return reply, nil
}

// Populate asks the backend to publish the newest state of a channel without publications, and reports whether it did.
// There is one request for all clients that wait.
func (b *Backend) Populate(ctx context.Context, ch channels.Channel, name string) (bool, error) {
	p := b.Proxies.Of(proxy.CacheEmpty, ch.CacheEmptyProxyName)
	var res message.NotifyCacheEmptyResponse
	if err := p.Call(ctx, nil, &message.NotifyCacheEmptyRequest{Channel: name}, &res); err != nil {
		b.Log.Debug("a proxy gave no answer", "channel", name, "error", err)
		return false, refusal.Because(protocol.ErrorInternal, p.Key(), "the cache empty proxy gave no answer, and the channel has no publication")
	}
	return res.Result != nil && res.Result.Populated, nil
}
