package app

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
)

type options = config.ChannelOptions

// historyOn and the like are building blocks of the tables below.
func historyOn(o *options)  { o.HistorySize, o.HistoryTTL = 10, time.Minute }
func presenceOn(o *options) { o.Presence = true }
func mapOn(o *options) {
	o.SubscriptionType, o.Map.Mode, o.AllowSubscribeForClient = "map", "persistent", true
}

// commandTests are outcomes of one command of a client.
// The channel is ns:a unless the command names another; before the command runs,
// the client subscribes to ns:a by a token if subscribed is set.
var commandTests = []struct {
	name       string
	edit       func(*options)
	user       string
	insecure   bool
	subscribed bool
	command    string
	want       string
}{
	{name: "empty channel", user: "u", command: `"subscribe":{"channel":""}`, want: "disconnect 3501"},
	{name: "empty channel, insecure", user: "u", insecure: true, command: `"publish":{"channel":"","data":1}`, want: "disconnect 3501"},
	{name: "too long", user: "u", insecure: true, command: `"subscribe":{"channel":"` + strings.Repeat("a", 256) + `"}`, want: "error 107"},
	{name: "longest", user: "u", insecure: true, command: `"subscribe":{"channel":"` + strings.Repeat("a", 255) + `"}`, want: "ok"},
	{name: "too long, publish", user: "u", insecure: true, command: `"publish":{"channel":"` + strings.Repeat("a", 256) + `","data":1}`, want: "error 107"},
	{name: "too long, presence", user: "u", insecure: true, command: `"presence":{"channel":"` + strings.Repeat("a", 256) + `"}`, want: "error 107"},
	{name: "too long, stats", user: "u", insecure: true, command: `"presence_stats":{"channel":"` + strings.Repeat("a", 256) + `"}`, want: "error 107"},
	{name: "too long, history", user: "u", insecure: true, command: `"history":{"channel":"` + strings.Repeat("a", 256) + `"}`, want: "error 107"},
	{name: "too long, unknown namespace", user: "u", insecure: true, command: `"publish":{"channel":"no:` + strings.Repeat("a", 256) + `","data":1}`, want: "error 107"},
	{name: "twice", user: "u", insecure: true, subscribed: true, command: `"subscribe":{"channel":"ns:a"}`, want: "error 105"},
	{name: "unknown namespace", user: "u", insecure: true, command: `"subscribe":{"channel":"no:a"}`, want: "error 102"},
	{name: "unknown namespace, publish", user: "u", insecure: true, command: `"publish":{"channel":"no:a","data":1}`, want: "error 102"},
	{name: "unknown namespace, presence", user: "u", insecure: true, command: `"presence":{"channel":"no:a"}`, want: "error 102"},
	{name: "unknown namespace, stats", user: "u", insecure: true, command: `"presence_stats":{"channel":"no:a"}`, want: "error 102"},
	{name: "unknown namespace, history", user: "u", insecure: true, command: `"history":{"channel":"no:a"}`, want: "error 102"},
	{name: "not ASCII", user: "u", insecure: true, command: `"subscribe":{"channel":"ns:é"}`, want: "error 107"},
	{name: "regex", edit: func(o *options) { o.ChannelRegex = "^é$" }, user: "u", insecure: true, command: `"subscribe":{"channel":"ns:é"}`, want: "ok"},
	{name: "regex violated", edit: func(o *options) { o.ChannelRegex = "^é$" }, user: "u", insecure: true, command: `"subscribe":{"channel":"ns:a"}`, want: "error 107"},

	{name: "map of a stream", user: "u", insecure: true, command: `"subscribe":{"channel":"ns:a","type":1}`, want: "error 103"},
	{name: "stream of a map", edit: mapOn, user: "u", command: `"subscribe":{"channel":"ns:a"}`, want: "error 103"},
	{name: "map", edit: mapOn, user: "u", command: `"subscribe":{"channel":"ns:a","type":1,"phase":2}`, want: "ok"},
	{name: "another kind of map", edit: mapOn, user: "u", command: `"subscribe":{"channel":"ns:a","type":2,"phase":2}`, want: "error 103"},
	{name: "publish to a map", edit: mapOn, user: "u", insecure: true, command: `"publish":{"channel":"ns:a","data":1}`, want: "error 103"},
	{name: "set", edit: mapOn, user: "u", command: `"publish":{"channel":"ns:a","type":1,"key":"k","data":1}`, want: "error 103"},
	{name: "set in a stream", user: "u", insecure: true, command: `"publish":{"channel":"ns:a","type":1,"key":"k","data":1}`, want: "error 103"},
	{name: "set, insecure", edit: mapOn, insecure: true, command: `"publish":{"channel":"ns:a","type":1,"key":"k","data":1}`, want: "ok"},
	{name: "set without key", edit: mapOn, insecure: true, command: `"publish":{"channel":"ns:a","type":1,"data":1}`, want: "error 107"},
	{name: "set for client", edit: func(o *options) { mapOn(o); o.Map.AllowPublishForClient = true }, user: "u",
		command: `"publish":{"channel":"ns:a","type":1,"key":"k","data":1}`, want: "ok"},
	{name: "set for client, removal", edit: func(o *options) { mapOn(o); o.Map.AllowPublishForClient = true }, user: "u",
		command: `"publish":{"channel":"ns:a","type":1,"key":"k","removed":true}`, want: "error 103"},
	{name: "remove for client", edit: func(o *options) { mapOn(o); o.Map.AllowRemoveForClient = true }, user: "u",
		command: `"publish":{"channel":"ns:a","type":1,"key":"k","removed":true}`, want: "ok"},
	{name: "set for client, anonymous", edit: func(o *options) { mapOn(o); o.Map.AllowPublishForClient = true },
		command: `"publish":{"channel":"ns:a","type":1,"key":"k","data":1}`, want: "error 103"},
	{name: "set for subscriber only", edit: func(o *options) { mapOn(o); o.Map.AllowPublishForSubscriber = true }, user: "u",
		command: `"publish":{"channel":"ns:a","type":1,"key":"k","data":1}`, want: "error 103"},
	{name: "set with the user's key", edit: func(o *options) { mapOn(o); o.Map.AllowPublishForClient, o.Map.ClientKey = true, "user_id" }, user: "u",
		command: `"publish":{"channel":"ns:a","type":1,"data":1}`, want: "ok"},
	{name: "set with the key of no user", edit: func(o *options) { mapOn(o); o.Map.ClientKey = "user_id" }, insecure: true,
		command: `"publish":{"channel":"ns:a","type":1,"data":1}`, want: "error 103"},
	{name: "shared poll", user: "u", insecure: true, command: `"subscribe":{"channel":"ns:a","type":4}`, want: "error 108"},
	{name: "private", edit: open, user: "u", insecure: true, command: `"subscribe":{"channel":"$ns:a"}`, want: "error 103"},
	{name: "listed", edit: func(o *options) { o.AllowUserLimitedChannels = true }, user: "u", command: `"subscribe":{"channel":"ns:a#v,u"}`, want: "ok"},
	{name: "not listed", edit: func(o *options) { o.AllowUserLimitedChannels = true; o.AllowSubscribeForClient = true },
		user: "u", command: `"subscribe":{"channel":"ns:a#v,w"}`, want: "error 103"},
	{name: "no list", edit: func(o *options) { o.AllowSubscribeForClient = true }, user: "u", command: `"subscribe":{"channel":"ns:a#v"}`, want: "ok"},
	{name: "allowed", edit: func(o *options) { o.AllowSubscribeForClient = true }, user: "u", command: `"subscribe":{"channel":"ns:a"}`, want: "ok"},
	{name: "anonymous", edit: func(o *options) { o.AllowSubscribeForClient = true }, command: `"subscribe":{"channel":"ns:a"}`, want: "error 103"},
	{name: "anonymous allowed", edit: func(o *options) { o.AllowSubscribeForClient, o.AllowSubscribeForAnonymous = true, true },
		command: `"subscribe":{"channel":"ns:a"}`, want: "ok"},
	{name: "anonymous alone", edit: func(o *options) { o.AllowSubscribeForAnonymous = true }, command: `"subscribe":{"channel":"ns:a"}`, want: "error 103"},
	{name: "insecure", user: "u", insecure: true, command: `"subscribe":{"channel":"ns:a"}`, want: "ok"},
	{name: "default", user: "u", command: `"subscribe":{"channel":"ns:a"}`, want: "error 103"},

	{name: "publish", user: "u", subscribed: true, command: `"publish":{"channel":"ns:a","data":1}`, want: "error 103"},
	{name: "publish for client", edit: func(o *options) { o.AllowPublishForClient = true }, user: "u", command: `"publish":{"channel":"ns:a","data":1}`, want: "ok"},
	{name: "publish for subscriber", edit: func(o *options) { o.AllowPublishForSubscriber = true }, user: "u", subscribed: true,
		command: `"publish":{"channel":"ns:a","data":1}`, want: "ok"},
	{name: "publish for subscriber only", edit: func(o *options) { o.AllowPublishForSubscriber = true }, user: "u",
		command: `"publish":{"channel":"ns:a","data":1}`, want: "error 103"},
	{name: "publish for subscriber, anonymous", edit: func(o *options) { o.AllowPublishForSubscriber = true }, subscribed: true,
		command: `"publish":{"channel":"ns:a","data":1}`, want: "error 103"},
	{name: "publish insecure", insecure: true, command: `"publish":{"channel":"ns:a","data":1}`, want: "ok"},
	{name: "publish without data", insecure: true, command: `"publish":{"channel":"ns:a"}`, want: "error 107"},
	{name: "publish of another format", edit: func(o *options) { o.PublicationDataFormat = "json_object" }, insecure: true,
		command: `"publish":{"channel":"ns:a","data":1}`, want: "error 107"},

	{name: "presence off", insecure: true, command: `"presence":{"channel":"ns:a"}`, want: "error 108"},
	{name: "presence denied", edit: presenceOn, user: "u", subscribed: true, command: `"presence":{"channel":"ns:a"}`, want: "error 103"},
	{name: "presence for subscriber", edit: func(o *options) { o.Presence, o.AllowPresenceForSubscriber = true, true }, user: "u", subscribed: true,
		command: `"presence_stats":{"channel":"ns:a"}`, want: "ok"},
	{name: "presence insecure", edit: presenceOn, insecure: true, command: `"presence_stats":{"channel":"ns:a"}`, want: "ok"},

	{name: "history off", insecure: true, command: `"history":{"channel":"ns:a"}`, want: "error 108"},
	{name: "history denied", edit: historyOn, user: "u", subscribed: true, command: `"history":{"channel":"ns:a"}`, want: "error 103"},
	{name: "history for subscriber", edit: func(o *options) { historyOn(o); o.AllowHistoryForSubscriber = true }, user: "u", subscribed: true,
		command: `"history":{"channel":"ns:a"}`, want: "ok"},
	{name: "history insecure", edit: historyOn, insecure: true, command: `"history":{"channel":"ns:a"}`, want: "ok"},
	{name: "history of another epoch", edit: historyOn, insecure: true, command: `"history":{"channel":"ns:a","since":{"offset":1,"epoch":"x"}}`, want: "error 112"},

	{name: "rpc", user: "u", command: `"rpc":{"method":"ping"}`, want: "error 108"},
	{name: "send", user: "u", command: `"send":{"data":1}`, want: "disconnect 3508"},
	{name: "tags filter not allowed", user: "u", insecure: true, command: `"subscribe":{"channel":"ns:a","tf":{"op":"","key":"k","cmp":"eq","val":"v"}}`, want: "error 107"},
	{name: "unknown delta", user: "u", insecure: true, command: `"subscribe":{"channel":"ns:a","delta":"x"}`, want: "disconnect 3501"},
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range commandTests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(cfg *config.Config) {
				cfg.Client.Insecure = tt.insecure
				addNamespace(cfg, "ns", tt.edit)
			})
			c := s.connect(tt.user)
			if tt.subscribed {
				c.Subscribe("ns:a", s.tokenField(jwt.MapClaims{"sub": tt.user, "channel": "ns:a"}))
			}
			if got, _ := c.Outcome(tt.command); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestChannelLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		open(&cfg.Channel.WithoutNamespace)
		cfg.Client.ChannelLimit = 2
	})
	c := s.dial(nil)
	c.Connect(s.tokenField(jwt.MapClaims{"channels": []string{"a"}})) // counts too
	c.Subscribe("b", "")
	if got, _ := c.Outcome(`"subscribe":{"channel":"c"}`); got != "error 106" {
		t.Errorf("got %s", got)
	}
	c.Do(`"unsubscribe":{"channel":"b"}`)
	c.Subscribe("c", "")
}

// TestRequested: channels that the client itself names in its connect command.
func TestRequested(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.Client.UserIDHTTPHeader = "X-User"
		addNamespace(cfg, "open", open)
		addNamespace(cfg, "shut", nil)
		addNamespace(cfg, "list", func(o *options) { o.AllowUserLimitedChannels = true })
	})
	const subs = `"subs":{"open:a":{},"shut:a":{},"list:#u":{},"list:#v":{},"$open:a":{},"open:é":{}}`
	res := s.dial(nil).Connect(s.tokenField(jwt.MapClaims{"sub": "u"}) + "," + subs)
	if len(res.Subs) != 2 || res.Subs["open:a"] == nil || res.Subs["list:#u"] == nil {
		t.Errorf("granted: %s", jsonText(res.Subs))
	}
	res = s.dial(map[string][]string{"X-User": {"u"}}).Connect(subs)
	if len(res.Subs) != 0 {
		t.Errorf("granted by header: %s", jsonText(res.Subs))
	}
	if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{"sub": "u"}) + `,"subs":{"no:a":{}}}`); got != "disconnect 3501" {
		t.Errorf("unknown namespace: %s", got)
	}
}

// wishTests are grants of what a subscriber of ns:a wishes.
var wishTests = []struct {
	name string
	edit func(*options)
	want string
}{
	{"nothing allowed", func(*options) {}, ""},
	{"positioning", func(o *options) { o.AllowPositioning = true }, "positioned"},
	{"recovery", func(o *options) { o.AllowRecovery = true }, "positioned recoverable"},
	{"history for subscribers", func(o *options) { o.AllowHistoryForSubscriber = true }, "positioned recoverable"},
	{"history for clients", func(o *options) { o.AllowHistoryForClient = true }, "positioned recoverable"},
	{"history for anonymous alone", func(o *options) { o.AllowHistoryForAnonymous = true }, ""},
	{"presence without join_leave", func(o *options) { o.AllowPresenceForSubscriber = true }, ""},
	{"join_leave without presence", func(o *options) { o.JoinLeave = true }, ""},
	{"join_leave", func(o *options) { o.JoinLeave, o.AllowPresenceForSubscriber = true, true }, "join_leave"},
}

func TestWishes(t *testing.T) {
	t.Parallel()
	for _, tt := range wishTests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(cfg *config.Config) {
				addNamespace(cfg, "ns", func(o *options) { historyOn(o); tt.edit(o) })
			})
			by := func(user string) string { return s.tokenField(jwt.MapClaims{"sub": user, "channel": "ns:a"}) }
			c := s.connect("u")
			res := c.Subscribe("ns:a", `"positioned":true,"recoverable":true,"join_leave":true,`+by("u"))
			// The end of an unsubscribe is after the join, and before the publication.
			v := s.connect("v")
			v.Subscribe("ns:a", by("v"))
			v.Do(`"unsubscribe":{"channel":"ns:a"}`)
			s.api("publish", `{"channel":"ns:a","data":1}`)
			var got []string
			for _, f := range []struct {
				name string
				on   bool
			}{{"positioned", res.Positioned}, {"recoverable", res.Recoverable}, {"join_leave", sawJoin(c, "v")}} {
				if f.on {
					got = append(got, f.name)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// sawJoin tells whether a user's join comes before the next publication.
func sawJoin(c *wstest.Client, user string) (saw bool) {
	for {
		p := c.Push()
		if p.Pub != nil {
			return saw
		}
		saw = saw || p.Join != nil && p.Join.Info.User == user
	}
}

// TestPublication: what subscribers see of a client's publication, and what the
// history keeps.
func TestPublication(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		addNamespace(cfg, "ns", func(o *options) { open(o); o.ForceRecovery = true })
	})
	c := s.dial(nil)
	c.Connect(s.tokenField(jwt.MapClaims{"sub": "u", "info": map[string]any{"n": 1}}))
	c.Subscribe("ns:a", s.tokenField(jwt.MapClaims{"sub": "u", "channel": "ns:a", "info": 2}))
	c.Do(`"publish":{"channel":"ns:a","data":{"x":1}}`)
	pub := c.Pub()
	if pub.Offset != 1 || string(pub.Data) != `{"x":1}` || pub.Info.User != "u" ||
		string(pub.Info.ConnInfo) != `{"n":1}` || string(pub.Info.ChanInfo) != "2" {
		t.Errorf("got %s", jsonText(pub))
	}
	h := c.Do(`"history":{"channel":"ns:a","limit":-1}`).History
	if h.Offset != 1 || len(h.Publications) != 1 {
		t.Errorf("history: %s", jsonText(h))
	}
}

// TestCacheRecovery: with auto_cache_recover the latest publication comes with
// every subscribe that recovers, whoever made it.
func TestCacheRecovery(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		addNamespace(cfg, "ns", func(o *options) {
			historyOn(o)
			o.AllowSubscribeForClient = true
			o.ForceRecovery, o.ForceRecoveryMode, o.AutoCacheRecover = true, "cache", true
		})
	})
	for _, data := range []string{"1", "2"} {
		s.api("publish", `{"channel":"ns:a","data":`+data+`}`)
	}
	sub := s.connect("u").Subscribe("ns:a", "")
	if len(sub.Publications) != 1 || string(sub.Publications[0].Data) != "2" || !sub.Recovered {
		t.Errorf("by command: %s", jsonText(sub))
	}
	off := map[string]any{"override": map[string]any{"force_recovery": map[string]any{"value": false}}}
	res := s.dial(nil).Connect(s.tokenField(jwt.MapClaims{"sub": "u", "subs": map[string]any{"ns:a": map[string]any{}, "ns:b": off}}))
	if a := res.Subs["ns:a"]; len(a.Publications) != 1 || string(a.Publications[0].Data) != "2" || !a.Recoverable {
		t.Errorf("by connection token: %s", jsonText(a))
	}
	res = s.dial(nil).Connect(s.tokenField(jwt.MapClaims{"sub": "u", "subs": map[string]any{"ns:a": off}}))
	if a := res.Subs["ns:a"]; len(a.Publications) != 0 || a.Recoverable {
		t.Errorf("with recovery overridden: %s", jsonText(a))
	}
}

func TestPingRPC(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { cfg.RPC.Ping.Enabled = true })
	c := s.connect("u")
	if r := c.Do(`"rpc":{"method":"ping"}`); r.RPC == nil || len(r.RPC.Data) != 0 {
		t.Errorf("got %+v", r)
	}
	if got, _ := c.Outcome(`"rpc":{"method":"x"}`); got != "error 104" {
		t.Errorf("got %s", got)
	}
}

// TestMaxLength: the length of names holds for whoever gives one, and each refusal is
// logged with the key that would change it.
func TestMaxLength(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.Channel.MaxLength = 8
		cfg.Client.UserPersonalChannel.Enabled = true
		o := &cfg.Channel.WithoutNamespace
		open(o)
		historyOn(o)
	})
	logged := 0
	refused := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		logged++
		var last string
		if !s.logs.Await(func(logs string) bool {
			n := 0
			for line := range strings.Lines(logs) {
				if strings.Contains(line, `"key":"channel.max_length"`) {
					n, last = n+1, line
				}
			}
			return n == logged
		}) {
			t.Errorf("%s: there is not one line for each refusal:\n%s", what, s.logs)
		}
		if !strings.HasSuffix(last, ` 8","key":"channel.max_length"}`+"\n") && !strings.Contains(last, "more than 8 bytes") {
			t.Errorf("%s: the line does not have the limit: %s", what, last)
		}
	}
	connect := func(fields string) string {
		got, _ := s.dial(nil).Outcome(`"connect":{` + fields + `}`)
		return got
	}
	refused("channels of a token", connect(s.tokenField(jwt.MapClaims{"sub": "u", "channels": []string{"123456789"}})), "error 107")
	refused("subs of a token", connect(s.tokenField(jwt.MapClaims{"sub": "u", "subs": map[string]any{"123456789": map[string]any{}}})), "error 107")
	refused("personal channel", connect(s.tokenField(jwt.MapClaims{"sub": "12345678"})), "error 107")
	refused("requested channel", connect(s.tokenField(jwt.MapClaims{"sub": "u"})+`,"subs":{"123456789":{}}`), "ok")
	c := s.connect("u")
	for _, command := range []string{"subscribe", "publish", "presence", "presence_stats", "history"} {
		got, _ := c.Outcome(`"` + command + `":{"channel":"123456789","data":1}`)
		refused(command, got, "error 107")
	}
	const answer = `{"error":{"code":107,"message":"bad request"}}`
	for _, method := range []string{"publish", "subscribe", "unsubscribe", "presence", "presence_stats", "history", "history_remove", "map_publish"} {
		_, got := s.post("/api/"+method, `{"channel":"123456789","user":"u","data":1,"key":"k"}`)
		refused("API "+method, got, answer)
	}
	_, got := s.post("/api/broadcast", `{"channels":["12345678","123456789"],"data":1}`)
	if !strings.Contains(got, `{"result":{`) {
		t.Errorf("broadcast: %s", got)
	}
	refused("broadcast", got[strings.LastIndex(got, `{"error"`):], answer+"]}}")
	_, got = s.post("/api/batch", `{"commands":[{"publish":{"channel":"123456789","data":1}}]}`)
	refused("batch", got, `{"replies":[`+answer+`]}`)
}

// Clients subscribe to maps themselves.
func TestServerSubscribesToNoMap(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { addNamespace(cfg, "map", mapOn) })
	if _, answer := s.post("/api/subscribe", `{"user":"u","channel":"map:a"}`); !strings.Contains(answer, `"code":107`) {
		t.Error(answer)
	}
	if !strings.Contains(s.logged(), `"key":"channel.namespaces[map].subscription_type"`) {
		t.Error(s.logged())
	}
}

// Clients set no new key in a full map; the API does. The log, the refusals and the explanation name the option.
func TestClientsCannotFillMaps(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		addNamespace(cfg, "map", func(o *options) {
			mapOn(o)
			o.Map.ClientMaxEntries, o.Map.AllowPublishForClient, o.Map.AllowRemoveForClient = 2, true, true
		})
	})
	c := s.connect("ann")
	command := func(key, more string) string {
		return `"publish":{"channel":"map:a","type":1,"key":"` + key + `"` + more + `}`
	}
	for i, step := range []struct{ command, want string }{
		{command("a", `,"data":1`), "ok"}, {command("b", `,"data":1`), "ok"}, {command("c", `,"data":1`), "error 106"},
		{command("b", `,"data":2`), "ok"}, {command("a", `,"removed":true`), "ok"}, {command("c", `,"data":1`), "ok"},
	} {
		if got, _ := c.Outcome(step.command); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if got := s.api("map_publish", `{"channel":"map:a","key":"d","data":1}`); strings.Contains(got, "suppressed") {
		t.Errorf("the API: %s", got)
	}
	if got := s.api("map_stats", `{"channel":"map:a"}`); !strings.Contains(got, `"num_keys":3`) {
		t.Error(got)
	}
	const key = "channel.namespaces[map].map.client_max_entries"
	if logs := s.logged(); !strings.Contains(logs, `"reason":"the map has at least 2 entries, the limit for new keys of clients","key":"`+key+`"`) {
		t.Error(logs)
	}
	if got := s.api("refusals", ""); !strings.Contains(got, key) || !strings.Contains(got, `"channel":"map:a"`) {
		t.Error(got)
	}
	found := false
	events := s.explained(`{"user":"ann","channel":"map:a"}`).Events
	for _, e := range events {
		found = found || e.Kind == "refused" && e.Key == key
	}
	if !found {
		t.Errorf("%+v", events)
	}
}
