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

// Connect asks for the user of the client, and adds the answer to the reply. It reports false if the backend does not
// know the client. from is the result of Keep.
func (b *Backend) Connect(ctx context.Context, e gyro.ConnectEvent, from *proxy.From, reply *gyro.ConnectReply) (known bool, err error) {
	p := b.Proxies.Of(proxy.Connect, "")
	req := &message.ConnectRequest{
		Client: e.ClientID, Transport: e.Transport.Name, Protocol: e.Transport.Encoding.String(), Encoding: encodingOf(p),
		Name: e.Name, Version: e.Version,
	}
	req.Data, req.B64Data = payload(p, e.Data)
	for ch := range e.Subs {
		req.Channels = append(req.Channels, ch)
	}
	var res message.ConnectResponse
	if err := b.ask(ctx, p, e.ClientID, "", from, req, &res); err != nil || res.Result == nil {
		return false, err
	}
	r := res.Result
	reply.Credentials = &gyro.Credentials{UserID: r.User, Meta: r.Meta}
	if r.ExpireAt > 0 {
		reply.Credentials.ExpireAt = time.Unix(r.ExpireAt, 0)
	}
	if reply.Credentials.Info, err = decoded(p, r.Info, r.B64Info, "b64info"); err != nil {
		return false, err
	}
	if reply.Data, err = decoded(p, r.Data, r.B64Data, "b64data"); err != nil {
		return false, err
	}
	if reply.Credentials.Capabilities, err = capabilities(p, r.Caps); err != nil {
		return false, err
	}
	reply.Labels = r.Labels
	return true, b.subscribe(p, r, reply)
}

// subscribe adds the server-side subscriptions in the answer to a connect: subs replace channels.
func (b *Backend) subscribe(p *proxy.Proxy, r *message.ConnectResult, reply *gyro.ConnectReply) error {
	add := func(name string, sub *message.SubscribeOptions) error {
		if name == "" {
			return nil
		}
		ch, err := b.Channels.Named(name)
		if err != nil {
			return err
		}
		o := channels.Subscription(ch, channels.SourceConnectProxy)
		if sub != nil {
			if o.ChanInfo, err = decoded(p, sub.Info, sub.B64Info, "b64info of subs"); err != nil {
				return err
			}
			if o.Data, err = decoded(p, sub.Data, sub.B64Data, "b64data of subs"); err != nil {
				return err
			}
			channels.Override(&o, auth.OverrideOf(sub.Override))
			o.AutoRecover = o.AutoRecover || sub.CacheRecover && o.Recoverable
		}
		channels.Subscribe(reply, name, o)
		return nil
	}
	for _, name := range r.Channels {
		if err := add(name, nil); err != nil {
			return err
		}
	}
	for name, sub := range r.Subs {
		if err := add(name, sub); err != nil {
			return err
		}
	}
	return nil
}

// Refresh asks whether a connection lives on. An answer without a result ends it.
func (b *Backend) Refresh(ctx context.Context, c *gyro.Client) (gyro.RefreshReply, error) {
	p := b.Proxies.Of(proxy.Refresh, "")
	req := new(message.RefreshRequest)
	req.Client, req.Transport, req.Protocol, req.Encoding, req.User, req.Meta = clientFields(p, c)
	req.Labels = labelsOf(c)
	var res message.RefreshResponse
	if err := p.Call(b.during(ctx, c), fromOf(c), req, &res); err != nil {
		until, ok := b.prolong(p, c, "", err)
		return gyro.RefreshReply{ExpireAt: until, Expired: !ok}, nil
	}
	b.State.unanswered.answered(thing{c.ID(), ""})
	r := res.Result
	switch {
	case r == nil:
		b.Log.Error("the backend's answer to a refresh has no result: the connection ends", "client", c.ID(), "key", p.Key())
		return gyro.RefreshReply{Expired: true}, nil
	case r.Expired || r.ExpireAt <= time.Now().Unix():
		return gyro.RefreshReply{Expired: true}, nil
	}
	info, err := decoded(p, r.Info, r.B64Info, "b64info")
	if err != nil {
		return gyro.RefreshReply{}, refusal.Answer(protocol.DisconnectServerError, err)
	}
	caps, err := capabilities(p, r.Caps)
	if err != nil {
		return gyro.RefreshReply{}, err
	}
	return gyro.RefreshReply{ExpireAt: time.Unix(r.ExpireAt, 0), Info: info, Meta: r.Meta, Capabilities: replaced(c, caps)}, nil
}

// capabilities of an answer of the backend; nil if it has none.
func capabilities(p *proxy.Proxy, list []*message.ChannelsCapability) (*channel.Capabilities, error) {
	if len(list) == 0 {
		return nil, nil
	}
	caps, err := auth.CapabilitiesOf(func(yield func(auth.Capability) bool) {
		for _, c := range list {
			if !yield(auth.Capability{Channels: c.Channels, Allow: c.Allow, Match: c.Match}) {
				return
			}
		}
	})
	if err != nil {
		err = refusal.Because(protocol.DisconnectServerError, p.Key(), "caps in the answer of the backend: "+err.Error())
	}
	return caps, err
}

// Call lets a proxy answer a client's RPC.
func (b *Backend) Call(ctx context.Context, c *gyro.Client, name string, e gyro.RPCEvent) ([]byte, error) {
	p := b.Proxies.Of(proxy.RPC, name)
	req := &message.RPCRequest{Method: e.Method}
	req.Client, req.Transport, req.Protocol, req.Encoding, req.User, req.Meta = clientFields(p, c)
	req.Labels = labelsOf(c)
	req.Data, req.B64Data = payload(p, e.Data)
	var res message.RPCResponse
	if err := b.ask(b.during(ctx, c), p, c.ID(), "", fromOf(c), req, &res); err != nil || res.Result == nil {
		return nil, err
	}
	return decoded(p, res.Result.Data, res.Result.B64Data, "b64data")
}
