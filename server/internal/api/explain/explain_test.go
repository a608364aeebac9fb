package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
)

func TestFind(t *testing.T) {
	connection := func(channels map[string]inspect.Subscription) []inspect.Connection {
		return []inspect.Connection{{Client: "c1", User: "42", Latency: -1, Channels: channels}}
	}
	subscribed := map[string]inspect.Subscription{"news": {Positioned: true, Offset: 5, Epoch: "e"}}
	event := func(k inspect.Kind, e inspect.Event) inspect.Event {
		e.Kind, e.Time = k, time.UnixMilli(1_000)
		return e
	}
	const at = "1970-01-01T00:00:01.000Z"
	for name, tt := range map[string]struct {
		c    Case
		want string
	}{
		"fine":         {Case{Connections: connection(subscribed)}, "ok: nothing is wrong with 1 connection of the user"},
		"fine channel": {Case{Channel: "news", Connections: connection(subscribed), Top: &channel.StreamPosition{Offset: 5, Epoch: "e"}}, "ok: nothing is wrong: 1 connection of the user, subscribed to the channel"},
		"never here":   {Case{}, "problem: the user is not connected, and the nodes remember no connection of it"},
		"gone": {Case{Events: []inspect.Event{event(inspect.Connected, inspect.Event{Client: "c1"}), event(inspect.Disconnected, inspect.Event{Client: "c1", Code: 3012, Text: "no pong"})}},
			"problem: the user is not connected: the last connection ended at " + at + " with 3012 (no pong)"},
		"refused connection": {Case{Events: []inspect.Event{event(inspect.Refused, inspect.Event{What: "client refused", Text: "the limit is 1", Key: "client.user_connection_limit"})}},
			"problem: at " + at + ": client refused: the limit is 1 [client.user_connection_limit]\nproblem: the user is not connected, and the nodes remember no connection of it"},
		"strangers": {Case{Refused: []inspect.Event{event(inspect.Refused, inspect.Event{What: "a", Text: "x"}), event(inspect.Refused, inspect.Event{What: "b", Text: "y", Key: "client.token"}),
			event(inspect.Refused, inspect.Event{What: "b", Text: "y", Key: "client.token"})}},
			"problem: the user is not connected, and the nodes remember no connection of it\n" +
				"notice: recently 2 refusals of clients whose user is not known: b: y [client.token]\nnotice: recently 1 refusal of clients whose user is not known: a: x"},
		"not subscribed": {Case{Channel: "news", Connections: connection(nil), Denied: &Denied{"it is off", "channel.namespaces"}},
			"problem: the connection is not subscribed to the channel, and the node remembers no attempt of it (c1)\n" +
				"problem: the user may not subscribe to the channel: it is off [channel.namespaces]"},
		"subscribe refused": {Case{Channel: "news", Connections: connection(nil), Events: []inspect.Event{
			event(inspect.Refused, inspect.Event{Client: "c1", Channel: "news", What: "subscribe refused", Text: "it is off", Key: "channel.namespaces"}),
			event(inspect.Subscribed, inspect.Event{Client: "c1", Channel: "other"})}},
			"problem: at " + at + " in news: subscribe refused: it is off [channel.namespaces] (c1)"},
		"unsubscribed": {Case{Channel: "news", Connections: connection(nil), Events: []inspect.Event{
			event(inspect.Unsubscribed, inspect.Event{Client: "c1", Channel: "news", Code: 2500, Text: "insufficient state"})}},
			"problem: the subscription to news ended at " + at + " with 2500 (insufficient state) (c1)"},
		"no channels": {Case{Connections: connection(nil)}, "problem: the connection is subscribed to no channel (c1)"},
		"behind": {Case{Channel: "news", Connections: connection(subscribed), Top: &channel.StreamPosition{Offset: 7, Epoch: "e"}},
			"problem: the client is at offset 5, and the top of the stream is 7 (c1)"},
		"another epoch": {Case{Channel: "news", Connections: connection(subscribed), Top: &channel.StreamPosition{Epoch: "f"}},
			"problem: the stream has begun anew since the client subscribed: the epoch of the subscription is e, and the stream's is f (c1)"},
		"slow": {Case{Connections: []inspect.Connection{{Client: "c1", Queue: 4711, Latency: 5 * time.Second, Channels: subscribed}}},
			"notice: 4711 bytes wait for the client, which reads more slowly than messages come [client.queue_max_size] (c1)\nnotice: the last pong of the client took 5s (c1)"},
		"was slow": {Case{Connections: connection(subscribed), Events: []inspect.Event{event(inspect.Slow, inspect.Event{Client: "c0", Count: 1})}},
			"notice: at " + at + " a client of the user was disconnected because 1 byte waited for it [client.queue_max_size] (c0)"},
		"not recovered": {Case{Channel: "news", Connections: connection(subscribed), Events: []inspect.Event{event(inspect.NotRecovered, inspect.Event{Client: "c1", Channel: "news"})}},
			"notice: at " + at + " the client could not get what it had missed in news: the stream no longer had it (c1)"},
		"began anew": {Case{Channel: "news", Connections: connection(subscribed), Events: []inspect.Event{
			event(inspect.NewEpoch, inspect.Event{Node: "n1", Channel: "news", What: "check", Text: "epoch a became b"}),
			event(inspect.NewEpoch, inspect.Event{Node: "n2", Channel: "news", What: "check", Text: "epoch a became b"}),
			event(inspect.NewEpoch, inspect.Event{Node: "n2", Channel: "news", What: "publication", Text: "epoch b became c"}),
			event(inspect.NotRecovered, inspect.Event{Client: "c1", Channel: "news", Text: inspect.Anew})}},
			"notice: at " + at + " the client could not get what it had missed in news: the stream has begun anew (c1)\n" +
				"notice: the stream of news has recently begun anew 2 times, as a publication showed at " + at + ": epoch b became c; clients cannot recover older publications that they missed"},
		"channel of a connect command": {Case{Channel: "news", Events: []inspect.Event{
			event(inspect.Refused, inspect.Event{Client: "c1", Channel: "news", What: "channel of a connect command refused", Text: "it is off", Key: "channel.namespaces"})}},
			"problem: at " + at + " in news: channel of a connect command refused: it is off [channel.namespaces] (c1)\n" +
				"problem: the user is not connected, and the nodes remember no connection of it"},
		"nodes": {Case{More: true, Incomplete: "no answer of n3", Connections: connection(subscribed), Events: []inspect.Event{
			event(inspect.Failing, inspect.Event{Node: "n1", What: "redis", Text: "no connection"}), event(inspect.Failing, inspect.Event{Node: "n2", What: "redis"}),
			event(inspect.Working, inspect.Event{Node: "n2", What: "redis"}), event(inspect.Lost, inspect.Event{})}},
			"problem: since " + at + " redis of node n1 does not work: no connection\nnotice: not all nodes have answered, so something may be missing here: no answer of n3\n" +
				"notice: brokers may recently have lost messages 1 time\nnotice: the user has more connections than were looked at"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, f := range Find(&tt.c) {
				line := fmt.Sprintf("%s: %s", f.Level, f.Text)
				if f.Key != "" {
					keytest.Check(t, f.Key)
					line += " [" + f.Key + "]"
				}
				if f.Client != "" {
					line += " (" + f.Client + ")"
				}
				lines = append(lines, line)
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
