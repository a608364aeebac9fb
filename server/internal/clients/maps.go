package clients

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// ChangeMap asks the backend about a client's change of a map. reply has the options of the namespace with the bound for
// clients; delta_publish does not count here.
func (b *Backend) ChangeMap(ctx context.Context, c *gyro.Client, ch channels.Channel, e gyro.MapChangeEvent, reply gyro.MapChangeReply) (gyro.MapChangeReply, error) {
	reply.Options.Delta = false
	if e.Removed {
		return b.removeKey(ctx, c, ch, e, reply)
	}
	p := b.Proxies.Of(proxy.MapPublish, ch.Map.PublishProxyName)
	req := &message.MapPublishRequest{Channel: e.Channel, Key: e.Key}
	req.Client, req.Transport, req.Protocol, req.Encoding, req.User, req.Meta = clientFields(p, c)
	req.Labels = labelsOf(c)
	req.Data, req.B64Data = payload(p, e.Data)
	var res message.MapPublishResponse
	if err := b.ask(b.during(ctx, c), p, c.ID(), e.Channel, fromOf(c), req, &res); err != nil {
		return reply, err
	}
	r := res.Result
	if r == nil {
		return reply, nil
	}
	var err error
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
	reply.Key, reply.Tags, reply.Version = r.Key, r.Tags, r.Version
	o := &reply.Options
	o.KeyMode, o.IdempotencyKey, o.VersionEpoch = channel.KeyMode(r.KeyMode), r.IdempotencyKey, r.VersionEpoch
	o.Delta = r.Delta && !o.Ephemeral()
	return reply, nil
}

func (b *Backend) removeKey(ctx context.Context, c *gyro.Client, ch channels.Channel, e gyro.MapChangeEvent, reply gyro.MapChangeReply) (gyro.MapChangeReply, error) {
	p := b.Proxies.Of(proxy.MapRemove, ch.Map.RemoveProxyName)
	req := &message.MapRemoveRequest{Channel: e.Channel, Key: e.Key}
	req.Client, req.Transport, req.Protocol, req.Encoding, req.User, req.Meta = clientFields(p, c)
	req.Labels = labelsOf(c)
	var res message.MapRemoveResponse
	if err := b.ask(b.during(ctx, c), p, c.ID(), e.Channel, fromOf(c), req, &res); err != nil {
		return reply, err
	}
	if r := res.Result; r != nil {
		reply.Key, reply.Tags, reply.Options.IdempotencyKey = r.Key, r.Tags, r.IdempotencyKey
	}
	return reply, nil
}
