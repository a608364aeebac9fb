package clients

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

type stream struct {
	*proxy.Stream // has Close
	backend       *Backend
	client        *gyro.Client
	of            channels.Channel
	channel, key  string
}

// SubscribeStream asks whether the client may subscribe, with a stream that then has the publications. They have no
// position, so there is no recovery and no delta.
func (b *Backend) SubscribeStream(ctx context.Context, c *gyro.Client, ch channels.Channel, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	p := b.Proxies.Of(proxy.SubscribeStream, ch.SubscribeStreamProxyName)
	conn, res, err := p.Open(b.during(ctx, c), fromOf(c), subscription(p, c, e), ch.SubscribeStreamProxyBidi)
	switch {
	case errors.Is(err, proxy.ErrStreams):
		return gyro.SubscribeReply{}, refusal.Because(protocol.ErrorInternal, p.Key()+".max_streams", proxy.ErrStreams.Error())
	case err != nil:
		if c.Context().Err() == nil {
			b.Log.Debug("a proxy gave no answer", "client", c.ID(), "channel", e.Channel, "error", err)
		}
		return gyro.SubscribeReply{}, protocol.ErrorInternal
	}
	if res.Error != nil {
		res.Error.Temporary = false // the contract has no temporary errors here
	}
	if err = refused(p, res); err == nil {
		var o gyro.SubscribeOptions
		if o, err = granted(p, ch, channels.SourceSubscribeStream, res.Result); err == nil {
			o.Recoverable, o.Positioned, o.AutoRecover, o.AllowDelta, o.AllowTagsFilter = false, false, false, false, false
			feed := &stream{conn, b, c, ch, e.Channel, p.Key()}
			return gyro.SubscribeReply{Options: o, ClientSideRefresh: true, Feed: feed}, nil
		}
	}
	conn.Close()
	return gyro.SubscribeReply{}, err
}

// Run implements gyro.Feed.
func (s *stream) Run(publish func(*gyro.Publication) error) gyro.Unsubscribe {
	for {
		var m message.StreamSubscribeResponse
		if err := s.Receive(&m); err != nil {
			return s.ended(err)
		}
		p := m.Publication
		if p == nil {
			continue
		}
		if len(p.Data) > 0 && s.client.Transport().Encoding == gyro.EncodingJSON && !json.Valid(p.Data) {
			s.backend.Log.Error("a publication from the backend's stream is not JSON, which its client needs: the client is disconnected",
				s.attrs()...)
			s.client.Disconnect(protocol.DisconnectInappropriateProtocol)
			return protocol.UnsubscribeServer
		}
		if err := s.of.CheckData(p.Data); err != nil {
			_, why := refusal.Explain(err)
			s.backend.Log.Error("a publication from the backend's stream is left out", s.attrs("error", why)...)
			continue
		}
		if publish(&gyro.Publication{Data: p.Data, Tags: p.Tags}) != nil {
			return protocol.UnsubscribeServer // it has ended already
		}
	}
}

func (s *stream) ended(err error) gyro.Unsubscribe {
	switch {
	case errors.Is(err, proxy.ErrClosed):
	case errors.Is(err, proxy.ErrFinished):
		s.backend.Log.Info("the backend has ended the stream of a subscription, which ends", s.attrs()...)
	default:
		s.backend.Log.Warn("the stream of a subscription broke: its client is to subscribe again", s.attrs("error", err)...)
		return protocol.UnsubscribeInsufficientState
	}
	return protocol.UnsubscribeServer
}

func (s *stream) attrs(more ...any) []any {
	return append([]any{"client", s.client.ID(), "user", s.client.UserID(), "channel", s.channel, "key", s.key}, more...)
}

// PublishToStream hands a publication to the stream of the client's subscription; the node does not publish it.
func (b *Backend) PublishToStream(e gyro.PublishEvent) (gyro.PublishReply, error) {
	s, ok := e.Feed.(*stream)
	if !ok || !s.Bidirectional() {
		return gyro.PublishReply{}, refusal.Because(protocol.ErrorNotAvailable, "subscribe_stream_proxy_bidirectional",
			"the client has no subscription to the channel whose stream takes publications")
	}
	if err := s.Send(e.Data); err != nil {
		return gyro.PublishReply{}, refusal.Because(protocol.ErrorInternal, s.key, err.Error())
	}
	return gyro.PublishReply{Published: true}, nil
}
