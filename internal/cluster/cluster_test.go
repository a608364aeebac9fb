package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a handler that notes what it is asked.
type node struct {
	*Cluster
	engine *bustest.Engine
	uid    string
	clocks *clocks.Clocks
	// answer is called for surveys, dispatch for commands of clients.
	answer   func(ctx context.Context, from, op string, data []byte) Answer
	channels map[string]int // nil: an error
	dispatch func(session, data string) <-chan struct{}

	mu      sync.Mutex
	applied []*control.Command
}

func (n *node) Inquire(_ context.Context, op string, data []byte) Answer {
	if op != "centrifuge_inquiry" {
		return Answer{Code: CodeUnknownOp}
	}
	return Answer{Data: append([]byte(n.uid), data...)}
}

func (n *node) Describe(context.Context) inspect.Node {
	return inspect.Node{
		Name: "name of " + n.uid, Version: "1", NumClients: 7, NumUsers: 6, NumSubs: 5, NumChannels: 4, Uptime: 3 * time.Second,
		Process: inspect.Process{CPU: 12.5, RSS: 1 << 40},
	}
}

func (n *node) Apply(cmd *control.Command) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.applied = append(n.applied, cmd)
}

func (n *node) Answer(ctx context.Context, from, op string, data []byte) (Answer, error) {
	if n.answer == nil {
		return Answer{Code: CodeUnknownOp}, nil
	}
	return n.answer(ctx, from, op, data), nil
}

func (n *node) Channels(context.Context, func(string) bool) (map[string]int, error) {
	if n.channels == nil {
		return nil, errors.New("none")
	}
	return n.channels, nil
}

func (n *node) Dispatch(session string, data []byte) <-chan struct{} {
	return n.dispatch(session, string(data))
}

// dispatched is what Dispatch returns at once.
func dispatched() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// join starts a node, which leaves when the test ends.
func join(t *testing.T, bus *bustest.Bus, uid string) *node {
	t.Helper()
	n := &node{uid: uid, engine: bus.Engine(), clocks: clocks.New(uid, nil)}
	n.Cluster = New(Config{
		UID: uid, Controller: n.engine, Handler: n, Clocks: n.clocks, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err := n.Listen(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() {
		n.Leave(context.Background())
		n.Close()
	})
	return n
}

// three returns three nodes, a minute after they have joined a cluster.
func three(t *testing.T) (a, b, c *node) {
	t.Helper()
	bus := bustest.New(t)
	a, b, c = join(t, bus, "a"), join(t, bus, "b"), join(t, bus, "c")
	time.Sleep(time.Minute + time.Millisecond)
	return a, b, c
}

// others lists the nodes that n knows.
func (n *node) others() string {
	var uids []string
	for _, o := range n.Nodes() {
		uids = append(uids, o.UID)
	}
	return strings.Join(uids, " ")
}

func (n *node) want(t *testing.T, others string) {
	t.Helper()
	synctest.Wait()
	if got := n.others(); got != others {
		t.Errorf("%s knows %q, want %q", n.uid, got, others)
	}
}

// Signs of life tell what the clocks differ: nodes whose clocks agree find nothing, and one that is 2 s ahead of this one is
// as far from the middle.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		time.Sleep(time.Minute)
		a.want(t, "b")
		if a.clocks.Ahead() != 0 || b.clocks.Ahead() != 0 {
			t.Errorf("clocks that agree are ahead by %v and %v", a.clocks.Ahead(), b.clocks.Ahead())
		}
		b.Leave(t.Context())
		time.Sleep(10 * time.Minute)
		bus.Inject("a", (&control.Command{UID: "x", Node: &control.Node{
			Time: time.Now().Add(2 * time.Second).UnixNano(), Delays: []*control.Delay{{Node: clocks.ID("a"), Took: int64(2 * time.Second)}},
		}}).AppendProto(nil))
		a.want(t, "x")
		if ahead := a.clocks.Ahead(); ahead != -time.Second {
			t.Errorf("ahead by %v", ahead)
		}
	})
}

// Signs of life fall on few moments, whenever a node has started, and stay about as far apart as they should.
func TestBeat(t *testing.T) {
	c := New(Config{UID: "a", Clocks: clocks.New("a", nil), Logger: slog.New(slog.DiscardHandler)})
	defer c.Close()
	moments := make(map[time.Duration]bool)
	for i := range 1000 {
		now := time.Unix(1e9, int64(i)*int64(7919*time.Microsecond))
		d := c.untilPing(now.UnixNano())
		if d < pingInterval-pingLength/2 || d > pingInterval+pingLength/2 {
			t.Errorf("the next sign of life comes in %v", d)
		}
		if next := now.Add(d); c.untilPing(next.UnixNano()) != pingInterval {
			t.Errorf("the one after it comes in %v", c.untilPing(next.UnixNano()))
		} else {
			moments[next.Sub(next.Truncate(pingInterval))] = true
		}
	}
	if len(moments) != int(pingInterval/pingLength) {
		t.Errorf("signs of life come at %d moments", len(moments))
	}
}

func TestJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		a.want(t, "b")
		b.want(t, "a") // at once, as a greeted it
		c := join(t, bus, "c")
		a.want(t, "b c")
		c.want(t, "a b")
		want := b.Describe(t.Context())
		want.UID = "b"
		a.mu.Lock()
		protocol := a.registry.nodes["b"].node.Protocol
		a.mu.Unlock()
		if n := a.Nodes()[0]; n != want || protocol != control.Version {
			t.Errorf("%+v of protocol %d", n, protocol)
		}
		time.Sleep(time.Hour)
		a.want(t, "b c")
		if sent := a.engine.Sent(); sent < 1200 || sent > 1210 {
			t.Errorf("%d messages in an hour", sent)
		}
		b.Leave(t.Context())
		a.want(t, "c")
		c.want(t, "a")
		time.Sleep(time.Minute)
		a.want(t, "c")
		b.want(t, "a c") // it still listens
	})
}

// A node that was killed is gone after 7 to 16 s, whenever that was.
func TestVanish(t *testing.T) {
	for after := time.Duration(0); after < 9*time.Second; after += 1300 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			bus := bustest.New(t)
			a, b := join(t, bus, "a"), join(t, bus, "b")
			time.Sleep(time.Minute + after)
			b.engine.Cut(true)
			time.Sleep(4*time.Second - time.Nanosecond) // its last sign of life was up to 3 s before
			a.want(t, "b")
			time.Sleep(12*time.Second + time.Nanosecond)
			a.want(t, "")
			b.want(t, "a") // it hears nothing at all
			b.engine.Cut(false)
			time.Sleep(pingInterval)
			a.want(t, "b")
			b.want(t, "a")
		})
	}
}

// The order of messages is free: a sign of life that is overtaken by the farewell
// does not bring the node back.
func TestLateSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a := join(t, bus, "a")
		alive := (&control.Command{UID: "x", Node: &control.Node{UID: "x"}}).AppendProto(nil)
		bus.Inject("", alive)
		a.want(t, "x")
		bus.Inject("", (&control.Command{UID: "x", Shutdown: &control.Shutdown{}}).AppendProto(nil))
		bus.Inject("", alive)
		a.want(t, "")
		time.Sleep(time.Minute)
		a.want(t, "")
		if len(a.registry.left) != 0 {
			t.Errorf("%v are remembered", a.registry.left)
		}
	})
}

func TestRegistryIsBounded(t *testing.T) {
	r := newRegistry()
	now := time.Now()
	long := strings.Repeat("é", maxName)
	for i := range maxNodes + 10 {
		r.put(&control.Node{UID: fmt.Sprint(i), Name: long, Version: long}, now)
		r.remove(fmt.Sprint("x", i), now)
	}
	if len(r.nodes) != maxNodes || len(r.left) != maxNodes {
		t.Errorf("%d nodes, %d left", len(r.nodes), len(r.left))
	}
	if n := r.nodes["0"].node; len(n.Name) != maxName-1 || len(n.Version) != maxName-1 {
		t.Errorf("%d bytes", len(n.Name))
	}
	hear := func(d time.Duration) { // messages of others come without a pause
		for at := time.Duration(0); at <= d; at += time.Second {
			r.hear(now.Add(at))
		}
	}
	hear(time.Minute)
	if lost := r.expire(now.Add(time.Minute)); len(lost) != maxNodes || len(r.left) != 0 {
		t.Errorf("%d expired", len(lost))
	}
	hear(forgetAfter)
	if lost := r.expire(now.Add(forgetAfter + 1)); len(lost) != 0 || len(r.nodes) != 0 {
		t.Errorf("%d expired, %d are known", len(lost), len(r.nodes))
	}
}

// TestDeafNode: a node that hears nothing at all, not even itself, takes nobody for lost, however long that is. Once it hears
// again, those that stay silent are.
func TestDeafNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, c := three(t)
		a.engine.Cut(true)
		for range 2 * forgetAfter / time.Second {
			time.Sleep(time.Second)
			a.want(t, "b c")
		}
		c.engine.Cut(true) // its process has ended meanwhile
		a.engine.Cut(false)
		time.Sleep(pingInterval)
		a.want(t, "b c")
		time.Sleep(silentAfter + cleanInterval)
		a.want(t, "b")
	})
}

func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		down := errors.New("down")
		a.engine.Fail(down)
		cmd := &control.Command{Disconnect: &control.Disconnect{User: "u"}}
		if err := a.publish(t.Context(), "", cmd); !errors.Is(err, down) {
			t.Error(err)
		}
		time.Sleep(20 * time.Second)
		a.want(t, "b") // it hears others
		b.want(t, "")
		a.engine.Fail(nil)
		time.Sleep(pingInterval)
		b.want(t, "a")
	})
}

func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b, c := join(t, bus, "a"), join(t, bus, "b"), join(t, bus, "c")
		send := func(to string, cmd *control.Command) {
			t.Helper()
			if err := a.publish(t.Context(), to, cmd); err != nil {
				t.Error(err)
			}
		}
		send("", &control.Command{Subscribe: &control.Subscribe{User: "u", Channel: "ch"}})
		send("", &control.Command{Unsubscribe: &control.Unsubscribe{User: "u", Channel: "ch"}})
		send("", &control.Command{Disconnect: &control.Disconnect{User: "u", Whitelist: []string{"w"}}})
		send("b", &control.Command{Refresh: &control.Refresh{User: "u"}})
		send("", &control.Command{}) // of another version
		if len(a.applied) != 0 || len(b.applied) != 4 || len(c.applied) != 3 {
			t.Errorf("%d, %d and %d commands", len(a.applied), len(b.applied), len(c.applied))
		}
		if d := b.applied[2].Disconnect; d == nil || d.User != "u" || d.Whitelist[0] != "w" {
			t.Errorf("%+v", b.applied[2])
		}
		if err := a.publish(t.Context(), "", &control.Command{Refresh: &control.Refresh{Info: make([]byte, maxCommand)}}); err == nil {
			t.Error("a command of any size is sent")
		}
		b.Close()
		send("", &control.Command{Disconnect: &control.Disconnect{User: "u"}})
		if len(b.applied) != 4 || len(c.applied) != 4 {
			t.Errorf("%d and %d commands", len(b.applied), len(c.applied))
		}
	})
}

func TestGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a := join(t, bus, "a")
		for _, data := range [][]byte{
			nil, {0xff}, make([]byte, maxCommand+1),
			(&control.Command{Node: &control.Node{UID: "x"}}).AppendProto(nil), // of nobody
			(&control.Command{UID: strings.Repeat("x", maxUID+1), Node: &control.Node{}}).AppendProto(nil),
			(&control.Command{UID: "x", SurveyResponse: &control.SurveyResponse{ID: 5}}).AppendProto(nil),
			(&control.Command{UID: "x"}).AppendProto(nil),
			(&control.Command{UID: "x", Shutdown: &control.Shutdown{}}).AppendProto(nil),
		} {
			bus.Inject("", data)
		}
		a.want(t, "")
		if len(a.applied) != 0 {
			t.Errorf("%v", a.applied)
		}
	})
}

// echo answers with the question and the node.
func echo(n *node) {
	n.answer = func(_ context.Context, from, op string, data []byte) Answer {
		return Answer{Code: 100, Data: []byte(from + ">" + n.uid + " " + op + " " + string(data))}
	}
}

func texts(answers map[string]Answer) string {
	var all []string
	for _, uid := range slices.Sorted(maps.Keys(answers)) {
		all = append(all, fmt.Sprintf("%s: %d %s", uid, answers[uid].Code, answers[uid].Data))
	}
	return strings.Join(all, ", ")
}

func TestSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b, c := join(t, bus, "a"), join(t, bus, "b"), join(t, bus, "c")
		echo(a)
		echo(b)
		synctest.Wait()
		survey := func(to, want string) {
			t.Helper()
			start := time.Now()
			answers, err := a.Survey(t.Context(), "op", []byte("data"), to)
			if err != nil || texts(answers) != want || time.Since(start) != 0 {
				t.Errorf("after %v: %s, %v; want %s", time.Since(start), texts(answers), err, want)
			}
		}
		survey("", "a: 100 a>a op data, b: 100 a>b op data, c: 3 ")
		survey("b", "b: 100 a>b op data")
		survey("a", "a: 100 a>a op data")
		if _, err := a.Survey(t.Context(), "op", nil, "nobody"); !errors.Is(err, ErrUnknownNode) || !strings.Contains(err.Error(), `"nobody"`) {
			t.Error(err)
		}
		if _, err := a.Survey(t.Context(), "op", make([]byte, MaxData+1), ""); err == nil {
			t.Error("data of any size is sent")
		}
		down := errors.New("down")
		a.engine.Fail(down)
		if _, err := a.Survey(t.Context(), "op", nil, ""); !errors.Is(err, down) {
			t.Error(err)
		}
		a.engine.Fail(nil)
		c.answer = func(context.Context, string, string, []byte) Answer { return Answer{Data: make([]byte, MaxData+1)} }
		survey("c", "c: 1 answer of 16777217 bytes is longer than 16777216")
	})
}

func TestSurveyMissesANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b, c := join(t, bus, "a"), join(t, bus, "b"), join(t, bus, "c")
		echo(a)
		echo(b)
		synctest.Wait()
		c.engine.Cut(true)
		for _, timeout := range []time.Duration{0, time.Second} {
			ctx, want := t.Context(), Timeout
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
				want = timeout
			}
			// Meanwhile c must not expire.
			bus.Inject("a", (&control.Command{UID: "c", Node: &control.Node{Name: "third"}}).AppendProto(nil))
			a.registry.nodes["c"].seen = time.Now().Add(time.Hour)
			start := time.Now()
			answers, err := a.Survey(ctx, "op", nil, "")
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer of node c (third)") {
				t.Error(err)
			}
			if got := texts(answers); got != "a: 100 a>a op , b: 100 a>b op " || time.Since(start) != want {
				t.Errorf("after %v: %s", time.Since(start), got)
			}
		}
		if len(a.surveys) != 0 {
			t.Errorf("%d surveys are left", len(a.surveys))
		}
	})
}

// Who leaves is not waited for, and who is silent no longer than others; but without an
// answer of the latter the survey is not complete.
func TestSurveyOfNodesThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b, c := join(t, bus, "a"), join(t, bus, "b"), join(t, bus, "c")
		echo(a)
		synctest.Wait()
		b.engine.Cut(true)
		hang := func(ctx context.Context, _, _ string, _ []byte) Answer {
			<-ctx.Done()
			return Answer{}
		}
		c.answer = hang
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		type outcome struct {
			answers map[string]Answer
			err     error
		}
		all, one := make(chan outcome, 1), make(chan outcome, 1)
		go func() {
			answers, err := a.Survey(ctx, "op", nil, "")
			all <- outcome{answers, err}
		}()
		go func() {
			answers, err := a.Survey(ctx, "op", nil, "c")
			one <- outcome{answers, err}
		}()
		time.Sleep(30 * time.Second)
		a.want(t, "c")
		c.Leave(t.Context())
		left := time.Now()
		if o := <-all; !errors.Is(o.err, errSilent) || !strings.Contains(o.err.Error(), "node b (name of b)") || texts(o.answers) != "a: 100 a>a op " {
			t.Errorf("%s, %v", texts(o.answers), o.err)
		}
		if o := <-one; !errors.Is(o.err, ErrUnknownNode) {
			t.Errorf("%s, %v", texts(o.answers), o.err)
		}
		if took := time.Since(left); took > silentPause {
			t.Errorf("that took %v", took)
		}
	})
}

func TestSurveyAnswersCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a := join(t, bus, "a")
		reply := func(from string, id uint64, text string) {
			bus.Inject("a", (&control.Command{UID: from, SurveyResponse: &control.SurveyResponse{ID: id, Data: []byte(text)}}).AppendProto(nil))
		}
		a.answer = func(context.Context, string, string, []byte) Answer {
			reply("stranger", 1, "first") // of a node that a does not know yet
			reply("stranger", 1, "second")
			reply("stranger", 2, "of another survey")
			return Answer{Data: []byte("own")}
		}
		answers, err := a.Survey(t.Context(), "op", nil, "")
		if err != nil || texts(answers) != "a: 0 own, stranger: 0 first" {
			t.Errorf("%s, %v", texts(answers), err)
		}
		reply("a2", 1, "late")
	})
}

func TestSurveysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		var mu sync.Mutex
		busy, most := 0, 0
		work := func(context.Context, string, string, []byte) Answer {
			mu.Lock()
			busy++
			most = max(most, busy)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			busy--
			mu.Unlock()
			return Answer{}
		}
		b.answer = work
		synctest.Wait()
		var wg sync.WaitGroup
		failed := 0
		for range 10 * maxAsking {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
				defer cancel()
				if _, err := a.Survey(ctx, "op", nil, ""); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed++
				}
			})
		}
		wg.Wait()
		mu.Lock() // b is at work for those that gave up
		if most > maxAnswering || failed != 5*maxAsking {
			t.Errorf("%d at a time, %d failed", most, failed)
		}
		mu.Unlock()
	})
}

// A node that falls silent is missed until it cannot have clients any more, and none of
// the surveys without it waits for long.
func TestSurveyMissesASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		echo(a)
		echo(b)
		a.channels, b.channels = map[string]int{"ch": 1}, map[string]int{"ch": 2}
		time.Sleep(time.Minute) // b has just given a sign of life
		b.engine.Cut(true)
		for cut := time.Now(); time.Since(cut) < time.Minute; {
			at := time.Since(cut)
			for _, to := range []string{"", "b"} {
				ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
				_, err := a.Survey(ctx, "op", nil, to)
				cancel()
				switch {
				case at < time.Second && to == "":
					ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
					if channels, err := a.Cluster.Channels(ctx, ""); channels != nil || !errors.Is(err, ErrNoAnswer) {
						t.Errorf("after %v channels are %v, %v, although b is not silent yet", at, channels, err)
					}
					cancel()
				case at < missedFor-pingInterval-time.Second && (err == nil || !strings.Contains(err.Error(), "node b (name of b)")),
					at > missedFor && to == "" && err != nil, at > missedFor && to != "" && !errors.Is(err, ErrUnknownNode):
					t.Errorf("after %v, to %q: %v", at, to, err)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		b.engine.Cut(false)
		time.Sleep(pingInterval + time.Second) // not to the moment at which b gives its next sign
		if replies, err := a.Survey(t.Context(), "op", nil, ""); len(replies) != 2 || err != nil {
			t.Errorf("%v, %v", replies, err)
		}
		b.engine.Cut(true)
		time.Sleep(20 * time.Second)
		start := time.Now()
		if _, err := a.Survey(t.Context(), "op", nil, ""); !errors.Is(err, errSilent) || time.Since(start) > silentPause {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		// Channels has the subscribers of the other nodes.
		start = time.Now()
		if channels, err := a.Cluster.Channels(t.Context(), ""); len(channels) != 1 || !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "name of b") || time.Since(start) > silentPause {
			t.Errorf("after %v: %v, %v", time.Since(start), channels, err)
		}
		b.Leave(t.Context()) // which is not heard
	})
}

// A survey does not wait for a node that nobody receives for, and names it.
func TestSurveyMissesANodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := three(t)
		b.engine.Gone(true)
		for _, want := range []time.Duration{2 * silentPause, silentPause} {
			start := time.Now()
			answers, err := a.Survey(t.Context(), "op", nil, "")
			if took := time.Since(start); len(answers) != 2 || !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "name of b") || took != want {
				t.Errorf("after %v, want %v: %d answers, %v", took, want, len(answers), err)
			}
		}
		start := time.Now()
		if _, err := a.Survey(t.Context(), "op", nil, "b"); !errors.Is(err, ErrNoAnswer) || time.Since(start) != 0 {
			t.Errorf("of the node alone: after %v: %v", time.Since(start), err)
		}
		b.engine.Gone(false)
		time.Sleep(pingInterval)
		if answers, err := a.Survey(t.Context(), "op", nil, ""); len(answers) != 3 || err != nil {
			t.Errorf("when it is back: %d answers, %v", len(answers), err)
		}
	})
}

// Shutting down ends surveys of both directions.
func TestCloseDuringSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		hang := func(ctx context.Context, _, _ string, _ []byte) Answer {
			<-ctx.Done()
			return Answer{}
		}
		a.answer, b.answer = hang, hang
		synctest.Wait()
		errs := make(chan error, 2)
		for _, n := range []*node{a, b} {
			go func() {
				_, err := n.Survey(t.Context(), "op", nil, "")
				errs <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		a.Leave(t.Context())
		a.Close()
		if err := <-errs; !errors.Is(err, errClosed) || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if _, err := a.Survey(t.Context(), "op", nil, ""); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		<-errs // b's own handler answers when its time is over, perhaps in time
	})
}
