package gyro

import (
	"cmp"
	"context"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Users acts on the connections that a Target selects on every node, if there are any. An empty Target is
// ErrorBadRequest. This node tells the others first, acts when each has confirmed, and returns no error then. A node
// that has been silent for 7 s, or receives nothing (broker.ErrNoReceiver), need not confirm: it learns of the operation
// if it comes back within 5 minutes and this node still runs.
//
// With an error, after 8 s at most, this node has done nothing, and no node will do anything later; nodes that had
// confirmed have done their part. The caller may repeat the operation. Any goroutine may call the methods. Only the
// node implements Users; tests of programs may, too.
type Users interface {
	// Subscribe makes a server-side subscription. A channel that is empty or longer than Config.ChannelMaxLength, and
	// options with Map, are ErrorBadRequest; an expiration in the past is ErrorExpired. Options that contradict each
	// other or the channel, and payloads that are not JSON, are other errors.
	Subscribe(ctx context.Context, t Target, ch string, o *SubscribeOptions) error
	// Unsubscribe ends subscriptions, server-side or not. Clients get the code of u, from 2000 to 2999, and its reason;
	// nil: 2000 "server unsubscribe". From 2500 on, they subscribe again. An empty channel and other codes are
	// ErrorBadRequest.
	Unsubscribe(ctx context.Context, t Target, ch string, u *Unsubscribe) error
	// Disconnect closes the connections. A code that is not from 3000 to 4999 is ErrorBadRequest.
	Disconnect(ctx context.Context, t Target, o *DisconnectOptions) error
	// Refresh changes the expiration. Info that is not JSON is an error, unless the node is Binary.
	Refresh(ctx context.Context, t Target, o *RefreshOptions) error
}

// Users returns the methods for connections of the whole cluster.
func (n *Node) Users() Users { return userOperations{n} }

type userOperations struct{ node *Node }

func (u userOperations) operate(ctx context.Context, t Target, cmd *control.Command) error {
	if err := t.check(); err != nil {
		return err
	}
	return u.node.member.Operate(ctx, u.node.cluster, cmd)
}

func (u userOperations) Subscribe(ctx context.Context, t Target, ch string, o *SubscribeOptions) error {
	if ch == "" || len(ch) > u.node.cfg.ChannelMaxLength {
		return ErrorBadRequest
	}
	if o != nil {
		if err := u.node.rules.ServerSubscribe(ch, o); err != nil {
			return err
		}
	}
	m := &control.Subscribe{User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session, Channel: ch}
	if o != nil {
		m.SetOptions(o)
	}
	if m.ExpireAt > 0 && m.ExpireAt <= u.node.rules.Clocks.Wall()/int64(time.Second) {
		return ErrorExpired
	}
	return u.operate(ctx, t, &control.Command{Subscribe: m})
}

func (u userOperations) Unsubscribe(ctx context.Context, t Target, ch string, why *Unsubscribe) error {
	if ch == "" {
		return ErrorBadRequest
	}
	why = cmp.Or(why, &protocol.UnsubscribeServer)
	if err := why.Check(); err != nil {
		return refusal.Because(ErrorBadRequest, "", err.Error())
	}
	return u.operate(ctx, t, &control.Command{Unsubscribe: &control.Unsubscribe{
		User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session, Channel: ch, Code: why.Code, Reason: why.Reason,
	}})
}

func (u userOperations) Disconnect(ctx context.Context, t Target, o *DisconnectOptions) error {
	opts := orZero(o)
	d := cmp.Or(opts.Disconnect, &DisconnectForceNoReconnect)
	if err := d.Check(); err != nil {
		return refusal.Because(ErrorBadRequest, "", err.Error())
	}
	return u.operate(ctx, t, &control.Command{Disconnect: &control.Disconnect{
		User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session, Code: d.Code, Reason: d.Reason, Whitelist: opts.Whitelist,
	}})
}

func (u userOperations) Refresh(ctx context.Context, t Target, o *RefreshOptions) error {
	opts := orZero(o)
	if err := u.node.rules.Value("RefreshOptions.Info", opts.Info); err != nil {
		return err
	}
	return u.operate(ctx, t, &control.Command{Refresh: &control.Refresh{
		User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session,
		Expired: opts.Expired, ExpireAt: channel.ToUnix(opts.ExpireAt), Info: opts.Info,
	}})
}
