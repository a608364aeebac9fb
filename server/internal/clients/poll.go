package clients

import (
	"context"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// Poll asks for the values of keys of a shared poll channel.
func (b *Backend) Poll(ctx context.Context, name string, keys []channel.PolledKey) (answer channel.PollAnswer, err error) {
	ch, err := b.Channels.Named(name)
	if err != nil {
		return answer, err
	}
	p := b.Proxies.Of(proxy.SharedPollRefresh, ch.SharedPoll.ProxyName)
	if p == nil {
		return answer, refusal.Because(protocol.ErrorNotAvailable, "subscription_type", "the channel is not a shared poll any more")
	}
	req := &message.SharedPollRefreshRequest{Channel: ch.Name, Items: make([]message.SharedPollRefreshRequestItem, len(keys))}
	for i, k := range keys {
		req.Items[i] = message.SharedPollRefreshRequestItem{Key: k.Key, Version: k.Version}
	}
	var res message.SharedPollRefreshResponse
	if err := p.Call(ctx, nil, req, &res); err != nil || res.Result == nil {
		return answer, err
	}
	answer.Epoch, answer.Values = res.Result.Epoch, make([]channel.KeyValue, 0, len(res.Result.Items))
	for _, it := range res.Result.Items {
		if !it.Removed && !ch.ValidData(it.Data) {
			b.Log.Warn("a value of a shared poll channel is ignored: publication_data_format does not allow it", "channel", ch.Name, "key", it.Key)
			continue
		}
		answer.Values = append(answer.Values, channel.KeyValue{
			Key: it.Key, Data: it.Data, Version: it.Version, Removed: it.Removed, Prev: it.PrevData,
		})
	}
	if b.Polled != nil {
		b.Polled(p.Name(), len(keys), len(res.Result.Items))
	}
	return answer, nil
}
