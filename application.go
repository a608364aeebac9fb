package gyro

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/guard"
	"github.com/gyrohq/gyro/internal/validate"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// application implements client.Application: it calls the handlers, and the engines where a handler leaves the work to
// them.
type application Node

func (a *application) Connecting(ctx context.Context, c *client.Client, e *effect.Connecting, inline bool) (context.Context, client.Known, error) {
	var reply ConnectReply
	if h := a.cfg.Handlers.Connecting; h != nil {
		info := (*Client)(c).Transport()
		info.header = c.Header()
		r := e.Request
		var err error
		reply, err = h(ctx, ConnectEvent{
			ClientID: c.ID(), Inline: inline, Token: r.Token, Data: r.Data, Name: r.Name,
			Version: r.Version, Headers: r.Headers, Subs: r.Subs, Transport: info, repeated: c.Repeated(),
		})
		if len(reply.Ignored) > 0 {
			c.Ignored(cmp.Or(reply.Credentials, GetCredentials(ctx), new(Credentials)).UserID, reply.Ignored, err)
		}
		if err != nil {
			return nil, client.Known{}, err
		}
	}
	who := reply.Credentials
	if given := GetCredentials(ctx); given != nil {
		who = cmp.Or(who, given)
		reply.Context = cmp.Or(reply.Context, c.Request())
	}
	if len(reply.Labels) > 0 {
		reply.Context = inspect.WithLabels(cmp.Or(reply.Context, context.Background()), reply.Labels)
	}
	e.Identity = effect.Identity{
		Data: reply.Data, ClientRefresh: reply.ClientSideRefresh, Subs: reply.Subscriptions,
	}
	if who == nil {
		return reply.Context, client.Known{}, nil
	}
	if err := a.acceptable((*Client)(c), &reply, who); err != nil {
		return nil, client.Known{}, err
	}
	e.Identity.Known = true
	e.Identity.User, e.Identity.Info, e.Identity.ExpireAt, e.Identity.Token = who.UserID, who.Info, channel.ToUnix(who.ExpireAt), who.Token
	return reply.Context, client.Known{Meta: who.Meta, Capabilities: who.Capabilities}, nil
}

func (a *application) acceptable(c *Client, reply *ConnectReply, who *Credentials) error {
	err := cmp.Or((*Node)(a).value(c, "ConnectReply.Data", reply.Data), a.rules.Value("Credentials.Info", who.Info))
	for ch, o := range reply.Subscriptions {
		err = cmp.Or(err, a.rules.Subscribe(ch, &o))
	}
	return err
}

// value checks a payload for one client alone.
func (n *Node) value(c *Client, what string, data []byte) error {
	if c.inner().Session().Via().Framer.Encoding() != EncodingJSON {
		return nil
	}
	return n.rules.Value(what, data)
}

func (a *application) Connected(ctx context.Context, c *client.Client) {
	a.cfg.Handlers.Connected(ctx, (*Client)(c))
}

func (a *application) Subscribe(ctx context.Context, c *client.Client, e *effect.Subscribing, inline bool) error {
	r := e.Request
	reply, err := a.cfg.Handlers.Subscribe(ctx, (*Client)(c), SubscribeEvent{
		Channel: r.Channel, Inline: inline, Token: r.Token, Data: r.Data,
		Positioned: r.Positioned, Recoverable: r.Recoverable, JoinLeave: r.JoinLeave, Type: r.Type, Rights: rights(c, r.Channel, 0),
	})
	e.Options, e.ClientRefresh = reply.Options, reply.ClientSideRefresh
	if err != nil {
		return err
	}
	if reply.Feed != nil {
		e.Feed = a.rules.Feed(r.Channel, reply.Feed)
	}
	return a.rules.Subscribe(r.Channel, &e.Options)
}

// rights of a client on a channel, with its rights as a subscriber.
func rights(c *client.Client, ch string, subscribed channel.Rights) channel.Rights {
	return subscribed | c.Known().Capabilities.On(ch)
}

func (a *application) Unsubscribed(ctx context.Context, c *client.Client, it *effect.DetachItem) {
	a.cfg.Handlers.Unsubscribed(ctx, (*Client)(c), UnsubscribeEvent{Channel: it.Channel, Unsubscribe: it.Reason, ServerSide: it.ServerSide})
}

func (a *application) Publish(ctx context.Context, c *client.Client, e *effect.Publish) error {
	if e.Request.Type != 0 {
		return a.changeMap(ctx, c, e)
	}
	ch, data := e.Request.Channel, e.Request.Data
	reply, err := a.cfg.Handlers.Publish(ctx, (*Client)(c), PublishEvent{
		Channel: ch, Data: data, Info: e.Info, Subscribed: e.Subscribed, Rights: rights(c, ch, e.Rights), Feed: validate.FeedOf(e.Feed),
	})
	if err != nil || reply.Published {
		return err
	}
	checked := reply.Data == nil && c.ReadJSON(data)
	if reply.Data != nil {
		data = reply.Data
	}
	if reply.Options.Info == nil {
		reply.Options.Info = e.Info
	}
	_, err = (*Node)(a).publish(ctx, ch, data, checked, &reply.Options)
	return ofClient(err, reply.Data == nil)
}

// changeMap is Publish for a map.
func (a *application) changeMap(ctx context.Context, c *client.Client, e *effect.Publish) error {
	r := e.Request
	reply, err := a.cfg.Handlers.MapChange(ctx, (*Client)(c), MapChangeEvent{
		Channel: r.Channel, Key: r.Key, Data: r.Data, Removed: r.Removed, Info: e.Info, Subscribed: e.Subscribed,
		Rights: rights(c, r.Channel, e.Rights),
	})
	if err != nil {
		return err
	}
	p := channel.Publication{
		Data: r.Data, Key: cmp.Or(reply.Key, r.Key), Removed: r.Removed, Info: cmp.Or(reply.Info, e.Info),
		Tags: reply.Tags, Version: reply.Version,
	}
	if reply.Data != nil {
		p.Data = reply.Data
	} else {
		p.Checked = c.ReadJSON(r.Data)
	}
	result, err := a.maps.Change(ctx, r.Channel, &p, reply.Options)
	if result.Suppressed == channel.SuppressMapFull {
		return refusal.Because(ErrorLimitExceeded, "MapOptions.MaxEntries",
			"the map has at least "+strconv.Itoa(reply.Options.MaxEntries)+" entries, the limit for new keys of clients")
	}
	return ofClient(err, reply.Data == nil)
}

// ofClient makes the error for a payload that is not JSON the client's, if the payload is.
func ofClient(err error, clients bool) error {
	if bad, ok := errors.AsType[*validate.NotJSON](err); ok && bad.What == validate.Data && clients {
		return refusal.Because(ErrorBadRequest, "ChannelOptions.Binary", "the client's payload is not JSON")
	}
	return err
}

func (a *application) Presence(ctx context.Context, c *client.Client, e *effect.Presence) error {
	reply, err := a.cfg.Handlers.Presence(ctx, (*Client)(c), PresenceEvent{Channel: e.Channel, Subscribed: e.Subscribed, Rights: rights(c, e.Channel, e.Rights)})
	if e.Clients = reply.Clients; err == nil && reply.Clients == nil {
		e.Clients, err = a.engines.Presence.Presence(c.Context(), e.Channel)
	} else if err == nil {
		err = a.rules.Presence(e.Channel, "PresenceReply.Clients", e.Clients)
	}
	return err
}

func (a *application) PresenceStats(ctx context.Context, c *client.Client, e *effect.PresenceStats) error {
	reply, err := a.cfg.Handlers.PresenceStats(ctx, (*Client)(c), PresenceEvent{Channel: e.Channel, Subscribed: e.Subscribed, Rights: rights(c, e.Channel, e.Rights)})
	if err == nil && reply.Stats == nil {
		e.PresenceStats, err = a.engines.Presence.Stats(c.Context(), e.Channel)
	} else if err == nil {
		e.PresenceStats = *reply.Stats
	}
	return err
}

func (a *application) History(ctx context.Context, c *client.Client, e *effect.History) error {
	reply, err := a.cfg.Handlers.History(ctx, (*Client)(c), HistoryEvent{
		Channel: e.Channel, Subscribed: e.Subscribed, Rights: rights(c, e.Channel, e.Rights), HistoryFilter: e.HistoryFilter,
	})
	if err == nil && reply.History == nil {
		e.History, err = a.engines.HistoryFor(c.Context(), e.Channel, e.HistoryFilter)
	} else if err == nil {
		e.History = *reply.History
		err = a.rules.History(e.Channel, "HistoryReply.History", e.Publications)
	}
	return err
}

func (n *Node) fill(ctx context.Context, ch string, inline bool) (bool, error) {
	reply, err := CacheEmptyReply{}, error(protocol.ErrorInternal)
	guard.Do(func() {
		reply, err = n.cfg.Handlers.CacheEmpty(ctx, CacheEmptyEvent{Channel: ch, Inline: inline})
	}, n.clients.Panicked)
	return reply.Populated, client.Sound(err)
}

func (a *application) RPC(ctx context.Context, c *client.Client, e *effect.RPC) (err error) {
	e.Data, err = a.cfg.Handlers.RPC(ctx, (*Client)(c), RPCEvent{Method: e.Request.Method, Data: e.Request.Data})
	if err != nil {
		return err
	}
	return (*Node)(a).value((*Client)(c), "the reply", e.Data)
}

func (a *application) Message(ctx context.Context, c *client.Client, e *effect.Message) error {
	return a.cfg.Handlers.Message(ctx, (*Client)(c), e.Data)
}

func (a *application) Refresh(ctx context.Context, c *client.Client, e *effect.Refresh) (client.Known, error) {
	reply, err := a.cfg.Handlers.Refresh(ctx, (*Client)(c), RefreshEvent{ClientSide: e.ClientSide, Token: e.Token})
	e.Expired, e.ExpireAt, e.Info, e.NewToken = reply.Expired, channel.ToUnix(reply.ExpireAt), reply.Info, reply.Token
	e.Capabilities = reply.Capabilities
	return client.Known{Meta: reply.Meta, Capabilities: reply.Capabilities}, cmp.Or(err, a.rules.Value("RefreshReply.Info", reply.Info))
}

func (a *application) SubRefresh(ctx context.Context, c *client.Client, e *effect.SubRefresh) error {
	reply, err := a.cfg.Handlers.SubRefresh(ctx, (*Client)(c), SubRefreshEvent{
		Channel: e.Channel, ClientSide: e.ClientSide, Token: e.Token,
	})
	e.Expired, e.ExpireAt, e.Info = reply.Expired, channel.ToUnix(reply.ExpireAt), reply.Info
	e.ServerTagsFilter, e.NewToken, e.Rights = reply.ServerTagsFilter, reply.Token, reply.Rights
	return cmp.Or(err, a.rules.ValueIn(e.Channel, "SubRefreshReply.Info", reply.Info))
}

func (a *application) Disconnected(ctx context.Context, c *client.Client, d protocol.Disconnect) {
	a.cfg.Handlers.Disconnected(ctx, (*Client)(c), DisconnectEvent{Disconnect: d})
}
