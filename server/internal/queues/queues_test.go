package queues_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
	"github.com/gyrohq/gyro/server/internal/services"
)

func messages(payloads ...string) (list []*queues.Message) {
	for i, p := range payloads {
		list = append(list, &queues.Message{ID: fmt.Sprint(i), Payload: []byte(p)})
	}
	return list
}

func publish(ch, data string) string {
	return fmt.Sprintf(`{"method":"publish","payload":{"channel":%q,"data":%q}}`, ch, data)
}

func outcomes(list []*queues.Message) (s string) {
	for _, m := range list {
		s += string("pdr"[m.Outcome])
	}
	return s
}

// TestFormats: what a message means (docs/consumers.md).
func TestFormats(t *testing.T) {
	for name, tt := range map[string]struct {
		method, payload, want string
		gaveUp                int
	}{
		"envelope":           {"", `{"method":"publish","payload":{"channel":"a","data":1}}`, "a 1", 0},
		"payload in string":  {"", `{"method":"publish","payload":"{\"channel\":\"a\",\"data\":1}"}`, "a 1", 0},
		"method outside":     {"publish", `{"channel":"a","data":1}`, "a 1", 0},
		"broadcast":          {"broadcast", `{"channels":["a","b"],"data":1}`, "a 1,b 1", 0},
		"base64":             {"publish", `{"channel":"a","b64data":"eHk="}`, "a xy", 0},
		"unsupported":        {"info", `{}`, "", 0},
		"unknown":            {"nothing", `{}`, "", 0},
		"no method":          {"", `{}`, "", 0},
		"malformed envelope": {"", `{"method`, "", 1},
		"malformed string":   {"", `{"method":"publish","payload":"{"}`, "", 1},
		"malformed request":  {"publish", `{"channel":1}`, "", 1},
		"refused":            {"publish", `{"channel":"unknown:1","data":1}`, "", 1},
		"no data":            {"publish", `{"channel":"a"}`, "", 1},
		"no channels":        {"broadcast", `{"data":1}`, "", 1},
		"some channels":      {"broadcast", `{"channels":["unknown:1","b"],"data":1}`, "b 1", 0},
		"empty":              {"", ``, "", 1},
	} {
		node, meter := queuetest.NewNode(), new(queuetest.Meter)
		p := queues.NewProcessor(queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
		m := &queues.Message{ID: "1", Method: tt.method, Payload: []byte(tt.payload)}
		p.Process(t.Context(), []*queues.Message{m})
		processed, failed, gaveUp := meter.Counts()
		if got := strings.Join(node.Got(), ","); got != tt.want || m.Outcome != queues.Done || processed != 1 || failed != 0 || gaveUp != tt.gaveUp {
			t.Errorf("%s: got %q, outcome %v, processed %d, failed %d, gave up %d", name, got, m.Outcome, processed, failed, gaveUp)
		}
	}
}

// TestDataMode: publications from payloads and attributes (docs/consumers.md).
func TestDataMode(t *testing.T) {
	mode := &config.PublicationDataMode{Enabled: true, Channels: "c", IdempotencyKey: "i", Delta: "d", Version: "v", VersionEpoch: "e", TagsPrefix: "t-"}
	for name, tt := range map[string]struct {
		attributes, want, options string
		gaveUp                    int
	}{
		"one channel":       {"c=a", "a x", "", 0},
		"several":           {"c=a,b", "a x,b x", "", 0},
		"spaces stay":       {"c=a, b", "a x, b x", "", 0},
		"empty element":     {"c=a,,b", "a x,b x", "", 0},
		"none":              {"", "", "", 0},
		"empty":             {"c=", "", "", 0},
		"first wins":        {"c=a;c=b", "a x", "", 0},
		"options":           {"c=a;i=k;d=true;v=7;e=ep;t-x=1;t-y=2", "a x", "k true 7 ep map[x:1 y:2]", 0},
		"empty options":     {"c=a;d=;v=", "a x", "", 0},
		"delta":             {"c=a;d=yes", "", "", 1},
		"version":           {"c=a;v=-1", "", "", 1},
		"case of names":     {"C=a", "", "", 0},
		"method is ignored": {"c=a;method=info", "a x", "", 0},
	} {
		node, meter := queuetest.NewNode(), new(queuetest.Meter)
		p := queues.NewProcessor(queuetest.Config(node, func(c *queues.Config) { c.Meter, c.Mode = meter, mode }))
		m := &queues.Message{ID: "1", Method: "nothing", Payload: []byte("x")}
		for a := range strings.SplitSeq(tt.attributes, ";") {
			k, v, _ := strings.Cut(a, "=")
			m.Attributes = append(m.Attributes, queues.Attribute{Key: k, Value: v})
		}
		p.Process(t.Context(), []*queues.Message{m})
		options := ""
		if o := node.Options(); tt.options != "" && len(o) > 0 {
			options = fmt.Sprintf("%s %v %d %s %v", o[0].IdempotencyKey, o[0].Delta, o[0].Version, o[0].VersionEpoch, o[0].Tags)
		}
		_, _, gaveUp := meter.Counts()
		if got := strings.Join(node.Got(), ","); got != tt.want || options != tt.options || m.Outcome != queues.Done || gaveUp != tt.gaveUp {
			t.Errorf("%s: got %q, options %q, outcome %v, gave up %d", name, got, options, m.Outcome, gaveUp)
		}
	}
}

// TestOrder: an ordered source stops at a message that has to be tried again, and publications of one
// channel never overtake each other.
func TestOrder(t *testing.T) {
	down := func(ch string, data []byte) bool { return string(data) == `"2"` }
	list := []string{publish("a", "1"), publish("b", "2"), publish("c", "3"), publish("b", "4"), publish("d", "5")}
	for _, tt := range []struct {
		ordered        bool
		outcomes, want string
	}{
		// c is in the batch of the failed one; b's next publication and all after it wait.
		{true, "drdpp", `a "1",c "3"`},
		{false, "drddd", `a "1",c "3",b "4",d "5"`},
	} {
		node := queuetest.NewNode()
		node.Fails = down
		p := queues.NewProcessor(queuetest.Config(node, func(c *queues.Config) { c.Ordered = tt.ordered }))
		m := messages(list...)
		p.Process(t.Context(), m)
		if got := strings.Join(node.Got(), ","); got != tt.want || outcomes(m) != tt.outcomes {
			t.Errorf("ordered %v: got %s, outcomes %s", tt.ordered, got, outcomes(m))
		}
		if queues.AllDone(m) {
			t.Error("all done")
		}
	}
}

// TestGroups: a message of a group waits when one before it has to be tried again, whatever their channels
// and methods; others do not.
func TestGroups(t *testing.T) {
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	p := queues.NewProcessor(queuetest.Config(node, nil))
	m := messages(publish("a", "0"), publish("bad", "1"), publish("b", "2"), publish("c", "3"),
		`{"method":"broadcast","payload":{"channels":["d"],"data":4}}`, publish("e", "5"))
	for i, group := range []string{"x", "y", "y", "x", "y", ""} {
		m[i].Group = group
	}
	p.Process(t.Context(), m)
	if got := strings.Join(node.Got(), ","); got != `a "0",c "3",e "5"` || outcomes(m) != "drpdpd" {
		t.Errorf("got %s, outcomes %s", got, outcomes(m))
	}
	node.SetFails(nil)
	p.Process(t.Context(), m[1:5])
	if got := strings.Join(node.Got()[3:], ","); got != `bad "1",b "2",c "3",d 4` || !queues.AllDone(m) {
		t.Errorf("got %s, outcomes %s", got, outcomes(m))
	}
}

// TestTry: what fails is tried again, up to a number of times or until the source stops.
func TestTry(t *testing.T) {
	for _, tt := range []struct {
		failures, retries int
		stop              bool
		want              string
		attempts          int
	}{{0, 3, false, "dd", 1}, {3, 3, false, "dd", 4}, {4, 3, false, "rd", 4}, {4, 3, true, "rd", 1}} {
		synctest.Test(t, func(t *testing.T) {
			node := queuetest.NewNode()
			attempts := 0
			node.Fails = func(ch string, _ []byte) bool {
				if ch == "bad" {
					attempts++
				}
				return ch == "bad" && attempts <= tt.failures
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.stop {
				cancel()
			}
			m := messages(publish("bad", "1"), publish("good", "2"))
			queues.NewProcessor(queuetest.Config(node, nil)).Try(ctx, t.Context(), m, tt.retries)
			if outcomes(m) != tt.want || attempts != tt.attempts || strings.Count(strings.Join(node.Got(), ","), "good") != 1 {
				t.Errorf("%+v: outcomes %s after %d attempts, got %q", tt, outcomes(m), attempts, node.Got())
			}
		})
	}
}

// TestBroadcastRetry: the whole message is tried again if one channel failed with error 100.
func TestBroadcastRetry(t *testing.T) {
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "b" }
	p := queues.NewProcessor(queuetest.Config(node, nil))
	m := messages(`{"method":"broadcast","payload":{"channels":["a","b","unknown:1"],"data":1}}`)
	p.Process(t.Context(), m)
	node.SetFails(nil)
	if m[0].Outcome != queues.Retry {
		t.Errorf("outcome %v", m[0].Outcome)
	}
	p.Process(t.Context(), m)
	if got := node.Got(); !slices.Equal(got, []string{"a 1", "a 1", "b 1"}) || m[0].Outcome != queues.Done {
		t.Errorf("got %q, outcome %v", got, m[0].Outcome)
	}
}

// TestPoison: a message that fails for RetryTime is given up, unless nothing else succeeds either.
func TestPoison(t *testing.T) {
	for _, tt := range []struct {
		name             string
		ordered, success bool
		retry            time.Duration
		want             queues.Outcome
	}{
		{"ordered", true, false, time.Hour, queues.Done},
		{"in a group", false, false, time.Hour, queues.Done},
		{"others succeed", false, true, time.Hour, queues.Done},
		{"nothing succeeds", false, false, time.Hour, queues.Retry},
		{"for ever", true, true, 0, queues.Retry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node, meter := queuetest.NewNode(), new(queuetest.Meter)
				node.Fails = func(ch string, _ []byte) bool { return ch == "poison" }
				var dead []string
				deadLetterFails := true
				p := queues.NewProcessor(queuetest.Config(node, func(c *queues.Config) {
					c.Meter, c.Ordered, c.RetryTime = meter, tt.ordered, tt.retry
					c.DeadLetter = func(_ context.Context, m *queues.Message, reason error) error {
						if deadLetterFails {
							deadLetterFails = false
							return errors.New("no room")
						}
						dead = append(dead, m.ID+" "+reason.Error())
						return nil
					}
				}))
				m := messages(publish("poison", "x"))
				if tt.name == "in a group" {
					m[0].Group = "g"
				}
				process := func(want queues.Outcome) {
					p.Process(t.Context(), m)
					if m[0].Outcome != want {
						t.Errorf("outcome %v, want %v", m[0].Outcome, want)
					}
				}
				process(queues.Retry)
				time.Sleep(time.Hour - time.Second)
				if tt.success {
					p.Process(t.Context(), []*queues.Message{{ID: "other", Payload: []byte(publish("a", "1"))}})
				}
				process(queues.Retry)
				time.Sleep(time.Second)
				process(queues.Retry) // the dead letter cannot be kept
				process(tt.want)
				given := 0
				if tt.want == queues.Done {
					given = 1
				}
				if _, _, gaveUp := meter.Counts(); gaveUp != given || len(dead) != given {
					t.Errorf("gave up %d, dead letters %q", gaveUp, dead)
				}
				if given > 0 && dead[0] != "0 publish: 100: internal server error" {
					t.Errorf("dead letter %q", dead[0])
				}
			})
		})
	}
}

// TestDeadLetterOfRefused: a message that cannot be executed goes to the dead letters at once.
func TestDeadLetterOfRefused(t *testing.T) {
	var dead []string
	p := queues.NewProcessor(queuetest.Config(queuetest.NewNode(), func(c *queues.Config) {
		c.DeadLetter = func(_ context.Context, m *queues.Message, reason error) error {
			dead = append(dead, m.ID)
			return nil
		}
	}))
	m := messages(publish("a", "1"), publish("unknown:1", "2"), `{`, `{"method":"info"}`, publish("a", "3"))
	m[4].Broken = errors.New("torn")
	p.Process(t.Context(), m)
	if !slices.Equal(dead, []string{"1", "2", "4"}) {
		t.Errorf("dead letters %q", dead)
	}
}

// commands remembers what it hears.
type commands []string

func (c *commands) Called(string, time.Duration) {}

func (c *commands) Executed(m api.Method, _ time.Duration, _ api.Result, err error) {
	*c = append(*c, fmt.Sprint(m, " ", err))
}
func (c *commands) Failed(m api.Method, s api.Stage) { *c = append(*c, fmt.Sprint(m, " ", s)) }

// TestObserver: each command is reported by itself, also those that went to the node together.
func TestObserver(t *testing.T) {
	var heard commands
	p := queues.NewProcessor(queuetest.Config(queuetest.NewNode(), func(c *queues.Config) { c.Commands = &heard }))
	p.Process(t.Context(), messages(publish("a", "1"), publish("unknown:1", "2"), publish("c", "3"),
		`{"method":"publish","payload":{"channel":1}}`, `{"method":"broadcast","payload":{"channels":["a"],"data":1}}`))
	want := []string{"publish unmarshal", "publish <nil>", "publish 102: unknown channel", "publish <nil>", "broadcast <nil>"}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q", heard)
	}
}

func TestBackoff(t *testing.T) {
	for retry, want := range map[int][2]time.Duration{
		1: {20 * time.Millisecond, 40 * time.Millisecond}, 3: {80 * time.Millisecond, 160 * time.Millisecond},
		9: {5 * time.Second, 5 * time.Second}, 1000: {5 * time.Second, 5 * time.Second},
	} {
		for range 100 {
			if d := services.Backoff(retry); d < want[0] || d > want[1] {
				t.Errorf("retry %d: %v", retry, d)
			}
		}
	}
}

// BenchmarkProcess publishes 256 messages of as many channels at a time.
func BenchmarkProcess(b *testing.B) {
	node := queuetest.NewNode()
	node.Fails = func(string, []byte) bool { return false }
	p := queues.NewProcessor(queuetest.Config(node, nil))
	list := make([]*queues.Message, 256)
	for i := range list {
		list[i] = &queues.Message{ID: fmt.Sprint(i), Payload: []byte(publish(fmt.Sprint("ch", i), "some data"))}
	}
	for n := 0; n < b.N; n += len(list) {
		p.Process(b.Context(), list)
	}
}
