package simulation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/client"
)

const redisAddress = "redis:6379"

// redisServer is a Redis server. Nodes reach it by the real engine, over connections of the scheduler.
type redisServer struct {
	*scheduler
	log         *log
	seed        uint64
	lag, jitter time.Duration
	fail, mute  int // chances of connections, of 4,000 writes: to break, and to be lost without a word

	config   redis.Config
	data     *redisData
	snapshot *redisData // older: of a replica, or on a disk
	runs     int        // of the server
	scripts  map[string]*redisScript
	lua      *redisLua
	links    []*redisLink
	conns    []*redisConn // open, by their names
	down     bool
	full     bool // out of memory
	book     *book
	goesBack bool          // after a restart or a failover
	stalled  time.Duration // no command is executed until then
	skew     time.Duration // of its clock
}

// redisLink is a node's network to the server.
type redisLink struct {
	s         *redisServer
	name      string
	redis     *redisBroker
	moment    func(string) // is told of each call and event
	cut, dead bool
	counts    map[string]int
	first     chan error    // of the call that makes the connection for commands
	waiting   []waitingCall // for it
}

func newRedisServer(s *scheduler, l *log, p *plan, b *book) *redisServer {
	n, r := p.Network, stream(p.Seed, "redis")
	server := &redisServer{
		scheduler: s, log: l, seed: p.Seed, goesBack: p.GoesBack, book: b, lag: n.EngineLag, jitter: n.EngineJitter, fail: n.Fail, mute: n.Mute,
		data: newRedisData("replication-0"), scripts: map[string]*redisScript{},
		skew: time.Duration(r.Int64N(int64(time.Minute))) - 30*time.Second,
		config: redis.Config{
			HistoryUseLists: r.IntN(4) == 0 && !slices.ContainsFunc(p.Names, func(ch string) bool { return kindOf(ch).changes != nil }), PresenceUserMapping: r.IntN(2) == 0, PresenceHashFieldTTL: r.IntN(4) == 0,
			PresenceTTL: 8 * time.Second, StartTimeout: time.Minute,
			CanaryInterval: 487 * time.Millisecond, CanaryTimeout: 1430 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		},
	}
	server.snapshot = server.data.clone()
	server.lua = newRedisLua(server.execute)
	return server
}

// connect returns the engine's end of a new node.
func (s *redisServer) connect(life string, moment func(string)) nodeLink {
	l := &redisLink{s: s, name: life, moment: moment, counts: map[string]int{}}
	c := s.config
	c.Shards = []redis.Shard{{
		Addresses: []string{redisAddress}, Mode: redis.Standalone, ConnectTimeout: 500 * time.Millisecond, IOTimeout: 2003 * time.Millisecond,
		FlushDelay: -1, Dial: l.dial,
	}}
	e, err := redis.New(c)
	if err != nil {
		panic(err)
	}
	l.redis = &redisBroker{e.Broker(), l, e.Broker().Describe()}
	s.links = append(s.links, l)
	return l
}

func (l *redisLink) engine() gyro.Engine { return l }

// Broker implements gyro.Engine.
func (l *redisLink) Broker() broker.Broker { return l.redis }

// connected tells whether the node has a connection for commands.
func (l *redisLink) connected() bool {
	return slices.ContainsFunc(l.s.conns, func(c *redisConn) bool { return c.l == l && c.greeted && c.open() })
}

func (l *redisLink) fate(key string) *rand.Rand {
	l.counts[key]++
	return stream(l.s.seed, fmt.Sprint(l.name, " ", key, " ", l.counts[key]))
}

func (l *redisLink) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	answer := make(chan *redisConn, 1)
	l.s.tell(l.name+" dial", func() {
		l.s.after(l.s.lag+time.Microsecond, l.name+" dial", func() { // behind the begin of the call that needs it
			if l.s.down || l.cut {
				answer <- nil
				return
			}
			answer <- newRedisConn(l)
		})
	})
	select {
	case c := <-answer:
		if c == nil {
			return nil, errRefused
		}
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err() // the connection has no name yet, so the server does not know it
	}
}

// sever breaks the connections of a node.
func (l *redisLink) sever() {
	if l.cut {
		return
	}
	l.cut = true
	l.s.log.add(l.name, "engine: connection lost")
	l.reset("")
}

// reset breaks the connections for a use.
func (l *redisLink) reset(use string) {
	for _, c := range slices.Clone(l.s.conns) {
		if c.l == l && strings.Contains(c.name, use) {
			c.reset()
		}
	}
}

func (l *redisLink) mend() {
	if l.cut && !l.dead {
		l.cut = false
		l.s.log.add(l.name, "engine: can be reached again")
	}
}

func (l *redisLink) kill() {
	l.sever()
	l.dead = true
	go func() { _ = l.redis.Broker.Close(context.Background()) }() // a Run under way ends
}

// open takes a connection that has a name now.
func (s *redisServer) open(c *redisConn) {
	i, _ := slices.BinarySearchFunc(s.conns, c, func(a, b *redisConn) int { return strings.Compare(a.name, b.name) })
	s.conns = slices.Insert(s.conns, i, c)
	if s.down || c.l.cut {
		s.after(0, c.name+" up", c.reset)
	}
}

// forget ends the server's end of a connection.
func (s *redisServer) forget(c *redisConn) {
	c.gone = true
	s.conns = slices.DeleteFunc(s.conns, func(o *redisConn) bool { return o == c })
}

// halt crashes the server.
func (s *redisServer) halt() {
	if s.down {
		return
	}
	s.down = true
	s.log.add("redis", "is down")
	s.resetAll()
}

func (s *redisServer) resetAll() {
	for _, c := range slices.Clone(s.conns) {
		c.reset()
	}
}

// resume starts the server again: with all data, with the data of the snapshot, or without data.
func (s *redisServer) resume(n int) {
	if !s.down {
		return
	}
	s.down = false
	switch n % 3 {
	case 0:
		s.begin("with all data", s.data)
	case 1:
		s.begin("with older data", s.older())
	case 2:
		s.begin("without data", newRedisData(""))
	}
}

func (s *redisServer) begin(how string, data *redisData) {
	s.runs++
	if s.goesBack {
		s.noteLosses(data)
	}
	s.data = data
	s.data.replication = fmt.Sprintf("replication-%d", s.runs)
	clear(s.scripts)
	s.log.add("redis", "run %d begins %s", s.runs, how)
}

func (s *redisServer) replicate() { s.snapshot = s.data.clone() }

// failover makes a replica the server, which does not have the newest data.
func (s *redisServer) failover() {
	if s.down {
		return
	}
	s.resetAll()
	s.begin("as a replica that takes over", s.older())
}

func (s *redisServer) older() *redisData {
	if !s.goesBack {
		return s.data
	}
	return s.snapshot.clone()
}

// redisKinds are steps for this engine alone.
var redisKinds = []stepKind{
	{"pub/sub cut", 4}, {"commands cut", 4}, {"silence", 3}, {"stall", 3}, {"full", 2}, {"empty", 3}, {"evict", 2},
}

// fault does a step of redisKinds.
func (s *redisServer) fault(l nodeLink, st step) {
	r := l.(*redisLink)
	switch st.Kind {
	case "pub/sub cut":
		r.reset("PUB/SUB")
	case "commands cut":
		r.reset("commands")
	case "silence":
		for _, c := range s.conns {
			if c.l == r && (st.Other%3 == 0 || strings.Contains(c.name, "PUB/SUB") == (st.Other%3 == 1)) {
				c.lost = true
			}
		}
	case "stall":
		s.stalled = max(s.stalled, s.now()+time.Duration(st.Other%300)*10*time.Millisecond)
	case "full":
		s.full = true
	case "empty":
		s.full = false
	case "evict":
		s.evict(st.Other)
	default:
		panic(st.Kind)
	}
}

// evict removes a key of a stream, as a server does that lacks memory. Evicted presence is no fault to live with: the
// documentation asks for noeviction. Nor is a cache without the publication that it is for.
func (s *redisServer) evict(n int) {
	keys := []string{}
	for key := range s.data.keys {
		if ch, meta := channelOf(key); ch != "" && (meta || kindOf(ch).sequence != rising) {
			keys = append(keys, key)
		}
	}
	if slices.Sort(keys); len(keys) > 0 {
		s.log.add("redis", "evicts %s", keys[n%len(keys)])
		delete(s.data.keys, keys[n%len(keys)])
	}
}

func (s *redisServer) heal() {
	s.fail, s.mute, s.stalled, s.full = 0, 0, 0, false
	s.resume(0)
	for _, l := range s.links { // also of nodes that end
		l.mend()
	}
}

// all executes commands of a connection, and returns the answers.
func (s *redisServer) all(c *redisConn, commands [][]string) [][]byte {
	answers := make([][]byte, len(commands))
	if strings.Contains(c.name, "PUB/SUB") {
		for i, args := range commands {
			answers[i] = s.one(c, args)
		}
		return answers
	}
	for _, i := range executionOrder(commands) {
		answers[i] = s.one(c, commands[i])
	}
	return answers
}

func (s *redisServer) one(c *redisConn, args []string) []byte {
	switch verb := strings.ToLower(args[0]); verb {
	case "subscribe", "unsubscribe":
		return s.subscribe(c, verb, args[1:])
	case "hello":
		c.version = 3
		return c.encode(nil, redisMap{"server", "redis", "version", "7.4.0", "proto", int64(3), "id", int64(1), "mode", "standalone", "role", "master", "modules", []any{}})
	}
	answer := s.execute(args, nil)
	s.record(c, args, answer)
	s.noteStored(args, answer)
	return c.encode(nil, answer)
}

// record writes a line, but not for what nodes do all the time.
func (s *redisServer) record(c *redisConn, args []string, answer any) {
	_, failed := answer.(redisError)
	verb, key := strings.ToLower(args[0]), ""
	if len(args) > 1 {
		key = args[1]
	}
	if strings.HasPrefix(verb, "eval") {
		if script := s.scripts[args[1]]; script != nil {
			verb = script.title
		}
		key = args[3]
	}
	for _, often := range []string{".mark.", ".sample.", ".shard.", "ping", "info", "command"} {
		if strings.Contains(key, often) || verb == often {
			return
		}
	}
	text := ""
	if a, short := answer.(string); failed || short && len(a) < 40 {
		text = fmt.Sprint(": ", answer)
	}
	s.log.add(c.name, "redis: %s, %s%s", verb, key, text)
}

func (s *redisServer) subscribe(c *redisConn, verb string, channels []string) (buf []byte) {
	for _, ch := range channels {
		if verb == "subscribe" {
			c.channels[ch] = true
		} else {
			delete(c.channels, ch)
		}
		buf = c.encode(buf, redisPush{verb, ch, int64(len(c.channels))})
	}
	slices.Sort(channels)
	s.log.add(c.name, "redis: %s %s", verb, channels)
	return buf
}

// execute does one command. Scripts set dirty when they have written.
func (s *redisServer) execute(args []string, dirty *bool) (answer any) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case redisError:
			answer = failure
		default:
			panic(failure)
		}
	}()
	verb := strings.ToLower(args[0])
	switch verb {
	case "ping":
		return redisStatus("PONG")
	case "info":
		return s.info(args[1])
	case "command":
		return []any{[]any{strings.ToLower(args[2])}}
	case "publish":
		return s.publish(args[1], args[2])
	case "eval", "evalsha":
		return s.eval(verb, args[1:])
	}
	command, ok := redisCommands[verb]
	switch {
	case !ok:
		return redisError("ERR unknown command '" + args[0] + "'")
	case command.grows && s.full && (dirty == nil || !*dirty):
		return noMemory
	case command.writes && dirty != nil:
		*dirty = true
	}
	return command.do(&redisCall{s.data, time.Now().Add(s.skew), args[1:]})
}

func (s *redisServer) info(section string) string {
	if section == "replication" {
		return "role:master\r\nmaster_replid:" + strings.ReplaceAll(s.data.replication, "-", "") + "\r\n"
	}
	return fmt.Sprintf("redis_version:7.4.0\r\nrun_id:run%d\r\ncluster_enabled:0\r\n", s.runs)
}

// publish returns how many connections are subscribed to a channel.
func (s *redisServer) publish(ch, message string) any {
	n := int64(0)
	for _, c := range s.conns {
		if c.channels[ch] {
			n++
			if strings.HasPrefix(ch, "gyro.client.") {
				c.l.moment("event for a node")
			}
			c.down(c.encode(nil, redisPush{"message", ch, message}))
		}
	}
	return n
}

func (s *redisServer) eval(verb string, args []string) any {
	script := s.scripts[args[0]]
	if verb == "eval" {
		var err error
		if script, err = compile(args[0]); err != nil {
			return redisError("ERR " + err.Error())
		}
		s.scripts[script.sha] = script
		args[0] = script.sha
	}
	if script == nil {
		return redisError("NOSCRIPT No matching script. Please use EVAL.")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return notNumber
	}
	return s.lua.eval(script, args[2:2+n], args[2+n:])
}

// sweep does nothing: the data of the simulated Redis expire when they are read.
func (s *redisServer) sweep() {}

func (s *redisServer) rest(bool) {}

// noteStored tells the book of a publication in a stream.
func (s *redisServer) noteStored(args []string, answer any) {
	text, ok := answer.(string)
	if !s.goesBack || !ok || len(args) < 6 || strings.HasPrefix(text, "1:") || strings.HasPrefix(text, "2:") {
		return
	}
	ch, _ := channelOf(args[3])
	if from, to := strings.Index(args[5], `{"id"`), strings.LastIndex(args[5], "}"); from >= 0 && ch != "" {
		s.book.channel(ch).past.stored(args[5][from : to+1])
	}
}

// channelOf returns the channel that a key of a stream belongs to.
func channelOf(key string) (ch string, meta bool) {
	for _, kind := range []string{"gyro.stream.", "gyro.list."} {
		if rest, ok := strings.CutPrefix(key, kind); ok {
			return strings.CutPrefix(rest, "meta.")
		}
	}
	return "", false
}

// noteLosses tells the book where streams are after the data went back.
func (s *redisServer) noteLosses(data *redisData) {
	for ch, b := range s.book.channels {
		top := client.StreamPosition{}
		for key, v := range data.keys {
			if c, meta := channelOf(key); meta && c == ch {
				top.Epoch = v.hash["e"]
				top.Offset, _ = strconv.ParseUint(v.hash["s"], 10, 64)
			}
		}
		b.past.back(top)
	}
}
