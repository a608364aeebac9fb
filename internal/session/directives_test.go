package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// epoch is when every conversation starts.
const startSeconds = 1_000_000

// player plays one file: a session, its hub, its clock and its peer.
type player struct {
	cfg     session.Config
	env     *fakeEnv
	conn    *fakeConn
	enc     protocol.Encoding
	now     int64
	shown   int64 // the time that the output mentioned last
	effects []effect.Effect
	out     []string
	polls   *sharedpoll.Table
}

// The directives; their arguments are explained at the methods.
var directives = map[string]func(p *player, a []string, input []string) error{
	"config":      (*player).config,
	"open":        (*player).open,
	"connected":   (*player).connected,
	"subscribed":  (*player).subscribed,
	"recv":        (*player).recv,
	"recv-raw":    (*player).recvRaw,
	"connect":     (*player).connect,
	"done":        (*player).done,
	"advance":     (*player).advance,
	"clock":       (*player).clock,
	"publish":     (*player).publish,
	"join":        (*player).joinLeave,
	"leave":       (*player).joinLeave,
	"round":       (*player).round,
	"check":       (*player).check,
	"send":        (*player).send,
	"subscribe":   (*player).subscribe,
	"unsubscribe": (*player).unsubscribe,
	"refresh":     (*player).refresh,
	"disconnect":  (*player).disconnect,
	"slow":        (*player).slow,
	"lost":        (*player).lost,
	"gone":        (*player).gone,
	"share":       (*player).share,
	"resume":      (*player).resume,
	"hub":         (*player).showHub,
	"value":       (*player).value,
	"fed":         (*player).fed,
	"feed-ended":  (*player).feedEnded,
}

func newPlayer() *player {
	all := session.Handles{
		Subscribe: true, Publish: true, MapChange: true, Presence: true, PresenceStats: true,
		History: true, RPC: true, Message: true, Refresh: true, SubRefresh: true,
	}
	return &player{cfg: session.Config{
		Version: "1.0.0", NodeID: "n1", PingInterval: 25 * time.Second, PongTimeout: 10 * time.Second,
		StaleDelay: 15 * time.Second, ExpiredDelay: 25 * time.Second, ExpiredSubDelay: 25 * time.Second,
		PresenceInterval: 25 * time.Second, Rounds: new(hub.Rounds),
		ChannelLimit: 128, ChannelMaxLength: 255, QueueMaxSize: 1 << 20, CommandLimit: 64,
		PendingMaxSize: 1 << 20, Handles: all,
	}}
}

// close ends what the last connection left.
func (p *player) close() {
	if p.polls != nil {
		p.polls.Close()
	}
}

// play does one step and returns what came of it.
func (p *player) play(line string, input []string) (out string, err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok {
				err = e
				return
			}
			panic(r)
		}
	}()
	w := words(line)
	f := directives[w[0]]
	if f == nil {
		return "", errors.New("unknown directive")
	}
	if w[0] == "join" || w[0] == "leave" {
		w = append(w, "kind="+w[0])
	}
	p.out = nil
	if err := f(p, w[1:], input); err != nil {
		return "", err
	}
	p.endTurn()
	return strings.Join(p.out, "\n"), nil
}

func (p *player) endTurn() {
	if p.env == nil {
		return
	}
	p.env.flush()
	p.show()
}

// say adds a line of output, after what the client received before.
func (p *player) say(format string, a ...any) {
	if p.now != p.shown {
		p.shown = p.now
		p.out = append(p.out, fmt.Sprintf("@%v", time.Duration(p.now)-startSeconds*time.Second))
	}
	p.out = append(p.out, fmt.Sprintf(format, a...))
}

// show tells what the client received.
func (p *player) show() {
	for _, r := range p.conn.replies(p.enc) {
		if p.conn.bare {
			p.say("send %s", formatPush(r.Push))
			continue
		}
		if p.conn.marked[r] {
			p.say("frame with the dictionary")
		}
		p.say("send %s", formatReply(r))
	}
}

// config key=value…: durations and numbers of session.Config, and
// handles=a,b|all|none. It counts from the next open on.
func (p *player) config(list, _ []string) error {
	a, c := parseArgs(list), &p.cfg
	c.PingInterval = a.dur("ping", c.PingInterval)
	c.PongTimeout = a.dur("pong", c.PongTimeout)
	c.StaleDelay = a.dur("stale", c.StaleDelay)
	c.PresenceInterval = a.dur("presence", c.PresenceInterval)
	c.PositionMaxTimeLag = a.dur("lag", c.PositionMaxTimeLag)
	c.ChannelLimit = int(a.num("channels", int64(c.ChannelLimit)))
	c.ChannelMaxLength = int(a.num("channel-length", int64(c.ChannelMaxLength)))
	c.QueueMaxSize = int(a.num("queue", int64(c.QueueMaxSize)))
	c.PendingMaxSize = int(a.num("pending", int64(c.PendingMaxSize)))
	c.CommandLimit = int(a.num("commands", int64(c.CommandLimit)))
	c.HistoryLimit = int(a.num("history", int64(c.HistoryLimit)))
	c.RecoveryLimit = int(a.num("recovery", int64(c.RecoveryLimit)))
	c.SendTime = a.has("time") || c.SendTime
	if names := a.str("handles"); names != "" {
		if err := handles(&c.Handles, names); err != nil {
			return err
		}
	}
	return a.leftover()
}

func handles(h *session.Handles, names string) error {
	all := map[string]*bool{
		"subscribe": &h.Subscribe, "publish": &h.Publish, "presence": &h.Presence,
		"presence_stats": &h.PresenceStats, "history": &h.History, "rpc": &h.RPC,
		"message": &h.Message, "refresh": &h.Refresh, "sub_refresh": &h.SubRefresh,
	}
	for _, f := range all {
		*f = names == "all"
	}
	if names == "all" || names == "none" {
		return nil
	}
	for _, name := range strings.Split(names, ",") {
		if all[name] == nil {
			return fmt.Errorf("no command %q", name)
		}
		*all[name] = true
	}
	return nil
}

// open json|protobuf [native-ping] [refuse] [random] [emulated|poll|one-way]
// [disconnect-push] [dictionary]: a new connection in a new world. With refuse, its user has too
// many connections. With dictionary, clients of profile p may use one, in JSON.
func (p *player) open(list, _ []string) error {
	a := parseArgs(list)
	p.enc = protocol.JSON
	if a.has("protobuf") {
		p.enc = protocol.Protobuf
	}
	a.has("json")
	p.now, p.shown = startSeconds*int64(time.Second), startSeconds*int64(time.Second)
	p.effects = nil
	p.conn = &fakeConn{room: -1, events: func(e string) { p.say("%s", e) }}
	p.env = &fakeEnv{
		now: &p.now, hub: hub.New(new(sendqueue.Arena)), pool: new(sendqueue.Pool), refuse: a.has("refuse"),
		events: func(e string) { p.say("%s", e) },
		do: func(e effect.Effect) bool {
			p.show()
			p.effects = append(p.effects, e)
			p.say("do %d %s", len(p.effects), formatEffect(e))
			return false
		},
	}
	p.env.refused = func(l observe.Limit, ch string) { p.say("%s", strings.TrimSpace("refused "+l.String()+" "+ch)) }
	p.close()
	p.polls = newPolls(p.env)
	cfg := p.cfg
	info := transport.Info{
		Name: "test", Framer: framers[p.enc], NativePing: a.has("native-ping"), DisconnectPush: a.has("disconnect-push"),
	}
	if a.has("dictionary") {
		info.Framer = new(bookFramer)
	}
	for name, mode := range map[string]transport.Mode{
		"emulated": transport.Emulated, "poll": transport.Poll, "one-way": transport.OneWay,
	} {
		if a.has(name) {
			info.Mode = mode
		}
	}
	p.conn.bare = info.Mode == transport.OneWay
	p.env.id = "c1"
	p.env.s.Init(p.env, &cfg, &closing{p.conn, p}, connkind.New(&info))
	return a.leftover()
}

// closing shows when the connection is closed.
type closing struct {
	*fakeConn
	p *player
}

func (c *closing) Close(d protocol.Disconnect, frames [][]byte) {
	c.fakeConn.Close(d, frames)
	c.p.show()
	if d.Code == 0 {
		c.p.say("close quietly")
		return
	}
	c.p.say("close %d %s", d.Code, d.Reason)
}

// connect {…}: the transport has the connect request of a one-way client.
func (p *player) connect(list, _ []string) error {
	req := new(protocol.ConnectRequest)
	err := req.UnmarshalJSON([]byte(list[0]))
	if err == nil {
		p.env.s.ReceiveConnect(req, nil)
	}
	return err
}

// connected …: as open, and the client connects as user 42. Of that, nothing is
// shown; effects are numbered anew.
func (p *player) connected(list, _ []string) error {
	err := p.open(list, nil)
	switch {
	case err != nil:
	case p.conn.bare:
		err = p.connect([]string{`{}`}, nil)
	default:
		err = p.recv(nil, []string{`{"id":1,"connect":{}}`})
	}
	if err == nil {
		err = p.done([]string{"1", "user=42"}, nil)
	}
	p.endTurn()
	p.out, p.effects = nil, nil
	return err
}

// subscribed CHANNEL [request={…}] [top=…] [id=…] [pubs=…] options…: the client
// subscribes. Only what it receives is shown; effects are numbered anew.
func (p *player) subscribed(list, _ []string) error {
	command := protocol.Command{ID: 99, Subscribe: &protocol.SubscribeRequest{}}
	attach := []string{"2"}
	subscribing := []string{"1"}
	for _, a := range list[1:] {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "request":
			if err := command.Subscribe.UnmarshalJSON([]byte(value)); err != nil {
				return err
			}
		case "top", "id", "pubs":
			attach = append(attach, a)
		default:
			subscribing = append(subscribing, a)
		}
	}
	command.Subscribe.Channel = list[0]
	line, err := command.AppendJSON(nil)
	p.effects = nil
	if err == nil {
		err = p.recv(nil, []string{string(line)})
	}
	if err == nil {
		err = p.done(subscribing, nil)
	}
	if err == nil {
		err = p.done(attach, nil)
	}
	p.out, p.effects = nil, nil
	return err
}

// recv: the input lines are commands, which arrive in one frame.
func (p *player) recv(_, input []string) error {
	var frame []byte
	for i, line := range input {
		if p.enc == protocol.JSON {
			if i > 0 {
				frame = append(frame, '\n')
			}
			frame = append(frame, line...)
			continue
		}
		var cmd protocol.Command
		err := cmd.UnmarshalJSON([]byte(line))
		if err == nil {
			frame, err = codec.ForClient(protocol.Protobuf).AppendCommand(frame, &cmd)
		}
		if err != nil {
			return err
		}
	}
	p.env.s.Receive(frame)
	return nil
}

// recv-raw "…": any bytes, quoted as in Go.
func (p *player) recvRaw(list, _ []string) error {
	frame, err := strconv.Unquote(list[0])
	if err == nil {
		p.env.s.Receive([]byte(frame))
	}
	return err
}

// done N …: effect N is complete. See complete for the arguments.
func (p *player) done(list, input []string) error {
	n, err := strconv.Atoi(list[0])
	if err != nil || n < 1 || n > len(p.effects) || p.effects[n-1] == nil {
		return fmt.Errorf("no effect %s", list[0])
	}
	e := p.effects[n-1]
	p.effects[n-1] = nil
	a := parseArgs(list[1:])
	if err := p.complete(e, a, input); err != nil {
		return err
	}
	p.env.s.Complete(e)
	return a.leftover()
}

// clock 1h: the node's clock jumps ahead, or back with a negative duration.
func (p *player) clock(list, _ []string) error {
	d, err := time.ParseDuration(list[0])
	p.env.ahead += int64(d)
	return err
}

// advance 25s: time passes, and the session's deadlines with it.
func (p *player) advance(list, _ []string) error {
	d, err := time.ParseDuration(list[0])
	if err != nil {
		return err
	}
	end := p.now + int64(d)
	for p.env.at != 0 && p.env.at <= end {
		p.now = max(p.now, p.env.at)
		p.env.at = 0
		p.env.s.Tick()
		p.endTurn()
	}
	p.now = end
	return nil
}

// publish CHANNEL data=… [offset=N epoch=E] [prev=N:DATA [prev-tags={…}]] [tags={…}] [info=USER:CLIENT]
// [age=5s] [key=K] [removed] [id=N]: a publication arrives from the broker.
func (p *player) publish(list, _ []string) error {
	a := parseArgs(list[1:])
	m := &hub.Message{Channel: list[0], Epoch: a.str("epoch"), ID: a.num("id", 0)}
	m.Pub = &channel.Publication{
		Offset: uint64(a.num("offset", 0)), Data: a.bytes("data"), Removed: a.has("removed"),
		Version: uint64(a.num("version", 0)), Key: a.str("key"),
		Time: (p.env.Wall() - int64(a.dur("age", 0))) / int64(time.Millisecond),
	}
	if tags := a.str("tags"); tags != "" {
		if err := json.Unmarshal([]byte(tags), &m.Pub.Tags); err != nil {
			return err
		}
	}
	if user, client, ok := strings.Cut(a.str("info"), ":"); ok {
		m.Pub.Info = &channel.ClientInfo{User: user, Client: client}
	}
	if prev := a.str("prev"); prev != "" {
		offset, data, _ := strings.Cut(prev, ":")
		n, err := strconv.ParseUint(offset, 10, 64)
		if err != nil {
			return err
		}
		m.Prev = &channel.Publication{Offset: n, Data: []byte(data)}
		if tags := a.str("prev-tags"); tags != "" {
			if err := json.Unmarshal([]byte(tags), &m.Prev.Tags); err != nil {
				return err
			}
		}
	}
	p.env.hub.Publish(m)
	p.env.hub.Deliver(math.MaxInt)
	return a.leftover()
}

// join|leave CHANNEL user=… client=… [id=N]: somebody came or went.
func (p *player) joinLeave(list, _ []string) error {
	a := parseArgs(list[1:])
	m := &hub.Message{Channel: list[0], Kind: hub.KindJoin, ID: a.num("id", 0)}
	if a.str("kind") == "leave" {
		m.Kind = hub.KindLeave
	}
	m.Info = &channel.ClientInfo{User: a.str("user"), Client: a.str("client")}
	p.env.hub.Publish(m)
	p.env.hub.Deliver(math.MaxInt)
	return a.leftover()
}

// round: the node begins to read the tops of streams.
func (p *player) round(_, _ []string) error {
	p.cfg.Rounds.Begin()
	return nil
}

// check CHANNEL top=OFFSET:EPOCH: the top that was read in the latest round.
func (p *player) check(list, _ []string) error {
	a := parseArgs(list[1:])
	top := position(a.str("top"))
	p.env.hub.Publish(&hub.Message{
		Channel: list[0], Kind: hub.KindCheck, Round: p.cfg.Rounds.Now(),
		Epoch: top.Epoch, Pub: &channel.Publication{Offset: top.Offset},
	})
	p.env.hub.Deliver(math.MaxInt)
	return a.leftover()
}

// send data=…: the application sends a message to the client.
func (p *player) send(list, _ []string) error {
	a := parseArgs(list)
	p.env.s.Send(a.bytes("data"))
	return a.leftover()
}

// subscribe CHANNEL options…: the server subscribes the client.
func (p *player) subscribe(list, _ []string) error {
	a := parseArgs(list[1:])
	o, err := p.options(a)
	if err != nil {
		return err
	}
	if err := p.env.s.ServerSubscribe(list[0], &o); err != nil {
		p.say("refused %v", err)
	}
	return a.leftover()
}

// unsubscribe CHANNEL [code=N reason=…]: the server ends a subscription.
func (p *player) unsubscribe(list, _ []string) error {
	a := parseArgs(list[1:])
	u := protocol.UnsubscribeServer
	if code := a.num("code", 0); code != 0 {
		u = protocol.Unsubscribe{Code: uint32(code), Reason: a.str("reason")}
	}
	p.env.s.ServerUnsubscribe(list[0], u)
	return a.leftover()
}

// refresh [expired] [expire=60] [info=…]: the server changes the expiration.
func (p *player) refresh(list, _ []string) error {
	a := parseArgs(list)
	p.env.s.ServerRefresh(a.has("expired"), p.expiry(a), a.bytes("info"))
	return a.leftover()
}

// disconnect CODE: the server closes the connection.
func (p *player) disconnect(list, _ []string) error {
	d, err := disconnectOf(list[0])
	if err == nil {
		p.env.s.Close(d)
	}
	return err
}

// slow N: the peer takes N more bytes; slow off: it takes all again.
func (p *player) slow(list, _ []string) error {
	if list[0] == "off" {
		p.conn.room = -1
		p.env.s.Flush()
		return nil
	}
	n, err := strconv.Atoi(list[0])
	p.conn.room = n
	return err
}

// lost [CODE]: the next write fails.
func (p *player) lost(list, _ []string) error {
	p.conn.lost = errors.New("broken pipe")
	if len(list) == 1 {
		d, err := disconnectOf(list[0])
		p.conn.lost = d
		return err
	}
	return nil
}

// gone [CODE]: the connection has ended.
func (p *player) gone(list, _ []string) error {
	d := protocol.DisconnectConnectionClosed
	var err error
	if len(list) == 1 {
		d, err = disconnectOf(list[0])
	}
	if err == nil {
		p.env.s.Lost(d)
	}
	return err
}

// share N: so much is dispatched at a time; more waits until resume.
func (p *player) share(list, _ []string) (err error) {
	p.env.share, err = strconv.Atoi(list[0])
	p.env.left = p.env.share
	return err
}

// resume: it is the session's turn again.
func (p *player) resume(_, _ []string) error {
	if !p.env.again {
		return errors.New("the session did not ask for it")
	}
	p.env.resume()
	return nil
}

// hub: who is in it.
func (p *player) showHub(_, _ []string) error {
	p.say("%d in the hub, registered %d", p.env.hub.Subscribers(), p.env.register)
	return nil
}

// newPolls returns the shared poll channels of one session. The application never answers: values are published.
func newPolls(e *fakeEnv) *sharedpoll.Table {
	t := sharedpoll.New(sharedpoll.Config{
		Loops: 1, Concurrency: 1, Log: slog.New(slog.DiscardHandler), Check: func(string, []byte) (bool, error) { return true, nil },
		Post: func(_ int, m *hub.Message) {
			e.hub.Publish(m)
			e.hub.Deliver(math.MaxInt)
		},
	})
	e.scratch.Polls = sharedpoll.Loop{Hub: e.hub, Table: t}
	return t
}

// neverPolled is the application of a channel whose values are published.
func neverPolled(ctx context.Context, _ string, _ []channel.PolledKey) (channel.PollAnswer, error) {
	<-ctx.Done()
	return channel.PollAnswer{}, ctx.Err()
}

// value CHANNEL KEY VERSION data=…|removed [epoch=…]: a value of a key is published.
func (p *player) value(list, _ []string) error {
	version, err := strconv.ParseUint(list[2], 10, 64)
	if err != nil {
		return err
	}
	c, a := p.polls.Find(list[0]), parseArgs(list[3:])
	if c == nil {
		return errors.New("nobody tracks keys there")
	}
	c.Publish(a.str("epoch"), channel.KeyValue{Key: list[1], Version: version, Data: a.bytes("data"), Removed: a.has("removed")})
	return a.leftover()
}

// fakeFeed says when it is closed.
type fakeFeed struct {
	p  *player
	of string
}

func (f *fakeFeed) Run(func(*channel.Publication) error) protocol.Unsubscribe {
	panic("the session runs a feed")
}
func (f *fakeFeed) Close() { f.p.say("close feed %s", f.of) }

// fed N data=… [tags={…}]: the feed that was run as the Nth has a publication.
func (p *player) fed(list, _ []string) error {
	n, err := strconv.Atoi(list[0])
	if err != nil {
		return err
	}
	a := parseArgs(list[1:])
	pub := &channel.Publication{Data: a.bytes("data")}
	if tags := a.str("tags"); tags != "" {
		if err := json.Unmarshal([]byte(tags), &pub.Tags); err != nil {
			return err
		}
	}
	if !p.env.fed[n-1].Fed(pub) {
		p.say("over")
	}
	return a.leftover()
}

// feed-ended N code=…: the feed that was run as the Nth has ended.
func (p *player) feedEnded(list, _ []string) error {
	n, err := strconv.Atoi(list[0])
	if err != nil {
		return err
	}
	a := parseArgs(list[1:])
	p.env.fed[n-1].FeedEnded(protocol.Unsubscribe{Code: uint32(a.num("code", 0)), Reason: "feed"})
	return a.leftover()
}
