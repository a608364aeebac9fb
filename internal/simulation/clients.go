package simulation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/protocol"
)

// program is a user's program with a client. The plan chooses the kind of the client.
type program interface {
	user() *told
	connect()
	disconnect()
	subscribe(ch string)
	unsubscribe(ch string)
	publish(ch string)
	ask(m protocol.Method, ch string) // an answer, and nothing else
	close()
}

// told is what a program is told, whatever its client is.
type told struct {
	r      *run
	name   string
	count  int
	closed bool
}

func (u *told) user() *told { return u }

// user is a program with the Go client.
type user struct {
	told
	c       *client.Client
	subs    []*client.Subscription // of all channels; nil for channels of the server
	maps    map[string]*client.Map
	fetches map[string]int // of tokens, by channel
	cancel  context.CancelFunc
}

func (r *run) newProgram(i int) program {
	name := fmt.Sprintf("u%d", i)
	switch kind := stream(r.plan.Seed, "client "+name).IntN(1000); {
	case kind < r.plan.Rude:
		return r.newModel(i, true)
	case kind < r.plan.Rude+r.plan.Models:
		return r.newModel(i, false)
	}
	return r.newUser(i)
}

func (r *run) newUser(i int) *user {
	u := &user{told: told{r: r, name: fmt.Sprintf("u%d", i)}, maps: map[string]*client.Map{}, fetches: map[string]int{}}
	encoding := protocol.Encoding(i % 2)
	token, getToken := u.name, (func(context.Context) (string, error))(nil)
	if r.renewal(u.name) == byClient {
		token, getToken = "", func(ctx context.Context) (string, error) { return u.token(ctx, "") }
	}
	c, err := client.NewOver(func(*client.Options) (client.Dialer, error) {
		return client.Dialer{Name: func() string { return "simulated" }, Dial: func(ctx context.Context) (client.Conn, error) {
			e, err := r.net.dial(ctx, u.name, r.anyMachine(u.name), encoding)
			if err != nil {
				return nil, err
			}
			return e, nil
		}}, nil
	}, client.Options{
		Token: token, GetToken: getToken, Encoding: encoding, Timeout: 3 * time.Second, MinDelay: 200 * time.Millisecond, MaxDelay: 2 * time.Second, PingWait: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		panic(err)
	}
	u.c = c
	own := []*client.Subscription{}
	for _, ch := range r.plan.Names {
		s := u.subscriptionTo(ch, i%3 == 0)
		u.subs = append(u.subs, s)
		if s != nil {
			own = append(own, s)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.cancel = cancel
	go func() {
		for e := range c.Events(ctx, own...) {
			r.tell("user "+u.name, func() { u.heard(e) })
		}
	}()
	return u
}

// heard is one event.
func (u *told) heard(e client.Event) {
	b, now := u.r.book, u.r.now()
	u.r.calm.heard(u.name, e)
	switch e := e.(type) {
	case client.ConnectedEvent:
		u.r.moment("client is connected", nil, u.r.named(u.name))
		u.r.log.alias(e.Client, fmt.Sprintf("%s/%d", u.name, u.count))
		u.count++
		u.r.log.add(u.name, "connected")
		b.connected(u.name, e.Client)
		u.r.began[e.Client] = map[string]int{}
	case client.ConnectingEvent:
		u.r.moment("client loses its connection", nil, u.r.named(u.name))
		u.r.log.add(u.name, "connecting: %v", e.Reason)
		b.disconnected(u.name)
	case client.DisconnectedEvent:
		u.r.log.add(u.name, "disconnected: %v", e.Reason)
		b.disconnected(u.name)
	case client.SubscribedEvent:
		if u.r.moment("client is subscribed", nil, u.r.named(u.name)); e.WasRecovering {
			u.r.moment("client recovers", nil, u.r.named(u.name))
		}
		u.r.log.add(u.name, "subscribed to %s at %d of %s, recovering %v, recovered %v", e.Channel, e.Position.Offset, e.Position.Epoch, e.WasRecovering, e.Recovered)
		if began := u.r.began[b.clients[u.name]]; began != nil {
			began[e.Channel]++
		}
		b.moved(u.name, e)
		b.subscribed(now, u.name, e.Channel, e.Position, e.WasRecovering && e.Recovered)
		b.expectGap(u.name, e)
	case client.SubscribingEvent:
		u.r.log.add(u.name, "subscribing to %s: %v", e.Channel, e.Reason)
		if e.Reason == client.BadDelta {
			b.fail("%s: a patch of %s does not fit", u.name, e.Channel)
		}
		b.unsubscribed(u.name, e.Channel)
		b.tries(u.name, e.Channel)
	case client.UnsubscribedEvent:
		u.r.log.add(u.name, "unsubscribed from %s: %v", e.Channel, e.Reason)
		b.unsubscribed(u.name, e.Channel)
	case client.PublicationEvent:
		u.r.log.add(u.name, "got %s%s of %s at %d", e.Key, e.Data, e.Channel, e.Offset)
		if e.Key != "" {
			b.changed(now, u.name, e.Channel, e.Publication)
			return
		}
		b.got(now, u.name, e.Channel, e.Offset, string(e.Data))
	case client.StateEvent:
		u.r.log.add(u.name, "got the state of %s: %d entries", e.Channel, len(e.Entries))
		b.state(u.name, e.Channel, e.Entries)
	case client.GapEvent:
		u.r.log.add(u.name, "gap in %s from %d to %d of %s", e.Channel, e.From.Offset, e.To.Offset, e.To.Epoch)
		b.gap(u.name, e.Channel)
	case client.JoinEvent:
		u.r.log.add(u.name, "%s joins %s", e.Info.Client, e.Channel)
		b.joined(u.name, e.Channel, e.Info.Client, e.Info.User)
	case client.LeaveEvent:
		u.r.log.add(u.name, "%s leaves %s", e.Info.Client, e.Channel)
		b.left(u.name, e.Channel, e.Info.Client)
	case client.ErrorEvent:
		u.r.log.add(u.name, "error %d in %q", e.Code, e.Channel)
		b.tries(u.name, e.Channel)
	}
}

func (u *user) connect() {
	go func() { _ = u.c.Connect(context.Background()) }()
}

func (u *user) disconnect() { u.c.Disconnect() }

func (u *user) subscription(ch string) *client.Subscription {
	return u.subs[slices.Index(u.r.plan.Names, ch)]
}

func (u *user) subscribe(ch string)   { u.subscription(ch).Subscribe() }
func (u *user) unsubscribe(ch string) { u.subscription(ch).Unsubscribe() }

// numbered is data with a number that grows.
func (u *told) numbered(text string) string {
	u.r.count++
	return fmt.Sprintf(`{"id":"%s-%d","text":"%s"}`, u.name, u.r.count, text)
}

// payload is the data of a publication that the program tries now.
func (u *told) payload(ch string) string {
	data := u.numbered("the same in all publications, so that deltas are small")
	u.r.book.tried(ch, data)
	return data
}

// published is the answer to a publication of the program.
func (u *told) published(ch, data string, began time.Duration, err error) {
	u.r.log.add(u.name, "published to %s: %v", ch, err)
	u.r.calm.called("publish of "+data, began, err)
	if err == nil {
		u.r.book.answered(ch, data)
		u.r.calm.published(ch, data, began)
	}
}

func (u *user) publish(ch string) {
	data, began := u.payload(ch), u.r.now()
	go func() {
		err := u.c.Publish(context.Background(), ch, []byte(data))
		u.r.tell("user "+u.name+" publish "+data, func() { u.published(ch, data, began, err) })
	}()
}

func (u *user) ask(m protocol.Method, ch string) {
	ctx, data := context.Background(), []byte(u.numbered("call"))
	go func() {
		switch m {
		case protocol.MethodPresence:
			_, _ = u.c.Presence(ctx, ch)
		case protocol.MethodPresenceStats:
			_, _ = u.c.PresenceStats(ctx, ch)
		case protocol.MethodHistory:
			_, _ = u.c.History(ctx, ch, client.HistoryOptions{Limit: 3})
		case protocol.MethodRPC:
			_, _ = u.c.RPC(ctx, "echo", data)
		case protocol.MethodSend:
			_ = u.c.Send(ctx, []byte(`{}`))
		}
	}()
}

func (u *user) close() {
	if u.closed {
		return
	}
	u.closed = true
	u.r.ending++
	go func() {
		u.c.Close()
		u.cancel()
		u.r.tell("user "+u.name+" closed", func() { u.r.ending-- })
	}()
}
