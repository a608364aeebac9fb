package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
	"github.com/gyrohq/gyro/internal/testkit/proptest"
)

// medium carries control messages badly: it loses, delays, doubles and reorders them,
// and its nodes may be paused.
type medium struct {
	mu    sync.Mutex
	rng   *rand.Rand
	bad   bool
	ends  map[string]*end
	signs map[[2]string][]time.Time // when signs of life of a node reached another
}

// end is one node's controller.
type end struct {
	*medium
	uid     string
	handle  func([]byte)
	resumed chan struct{} // closed unless the node is paused
	dead    bool
	away    [][2]time.Time // when nobody received what was for the node, which ran all the same
}

// isAway tells whether the node is away, or was less than d ago.
func (e *end) isAway(at time.Time, d time.Duration) bool {
	return slices.ContainsFunc(e.away, func(s [2]time.Time) bool { return !at.Before(s[0]) && at.Before(s[1].Add(d)) })
}

func (e *end) Describe() broker.Traits { return broker.Traits{} }

func (e *end) RunControl(uid string, handle func([]byte)) error {
	e.uid, e.handle = uid, handle
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends[uid] = e
	return nil
}

// running waits until the node is not paused.
func (e *end) running(ctx context.Context) error {
	e.mu.Lock()
	resumed := e.resumed
	e.mu.Unlock()
	select {
	case <-resumed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *end) PublishControl(ctx context.Context, to string, data []byte) error {
	if err := e.running(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return nil
	}
	now := time.Now()
	if e.isAway(now, 0) {
		return errors.New("the medium fails: not connected")
	}
	refused := e.bad && e.rng.IntN(10) == 0
	for uid, o := range e.ends {
		if to != "" && to != uid || refused && e.rng.IntN(2) == 0 {
			continue // what is answered with an error may get through
		}
		if o.isAway(now, 0) || o.dead {
			if to != "" {
				return broker.ErrNoReceiver
			}
			continue
		}
		copies := 1
		if e.bad {
			copies = []int{0, 0, 1, 1, 1, 1, 1, 1, 1, 2}[e.rng.IntN(10)]
		}
		for range copies {
			var delay time.Duration
			if e.bad {
				delay = []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 12 * time.Second}[e.rng.IntN(5)]
			}
			go o.deliver(data, delay)
		}
	}
	if refused {
		return errors.New("the medium fails")
	}
	return nil
}

func (e *end) deliver(data []byte, delay time.Duration) {
	time.Sleep(delay)
	_ = e.running(context.Background())
	e.mu.Lock()
	dead := e.dead
	e.mu.Unlock()
	if dead {
		return
	}
	e.handle(data)
	var cmd control.Command
	if err := cmd.UnmarshalProto(data); err == nil && cmd.Node != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		way := [2]string{cmd.UID, e.uid}
		e.signs[way] = append(e.signs[way], time.Now())
	}
}

func (e *end) pause(d time.Duration) {
	e.mu.Lock()
	resumed := make(chan struct{})
	e.resumed = resumed
	e.mu.Unlock()
	time.Sleep(d)
	close(resumed)
}

// answer is what the caller of a command was told.
type answer struct {
	user, by string
	at       time.Time
	took     time.Duration
	err      error
}

// heard tells whether a node had given the other a sign of life shortly before, and was not away since.
func (m *medium) heard(from, by string, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ends[from].isAway(at, tellTimeout) {
		return false
	}
	return slices.ContainsFunc(m.signs[[2]string{from, by}], func(s time.Time) bool {
		return s.Before(at) && at.Sub(s) <= silentAfter
	})
}

// book notes what the nodes did, by user: each command has its own.
type book struct {
	mu   sync.Mutex
	done map[string]map[string][]time.Time // user, node
}

type booked struct {
	*node
	book *book
}

func (b *booked) Apply(cmd *control.Command) {
	b.book.mu.Lock()
	defer b.book.mu.Unlock()
	u := cmd.Disconnect.User
	if b.book.done[u] == nil {
		b.book.done[u] = make(map[string][]time.Time)
	}
	b.book.done[u][b.uid] = append(b.book.done[u][b.uid], time.Now())
}

// Whatever happens to the messages: a command that is answered with success has been
// done, once, on every node that was heard of in the last 7 s, and is done on the others
// when they are back; one that is answered with an error is not done later.
func TestCommandsHold(t *testing.T) {
	seeds := proptest.Rounds(10)
	var held, failed int
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h, f := commandsHold(t, uint64(seed))
			held, failed = held+h, failed+f
		})
	}
	if held < 10*seeds || failed < seeds {
		t.Errorf("%d commands held, %d failed: the schedules are not what this test is about", held, failed)
	}
}

const killed = "e" // in half of the schedules

func commandsHold(t *testing.T, seed uint64) (held, failed int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := &medium{rng: rand.New(rand.NewPCG(seed, 2)), ends: make(map[string]*end), signs: make(map[[2]string][]time.Time)}
	bk := &book{done: make(map[string]map[string][]time.Time)}
	uids := []string{"a", "b", "c", "d", killed}
	nodes := make(map[string]*booked)
	for _, uid := range uids {
		e := &end{medium: m, resumed: make(chan struct{})}
		close(e.resumed)
		n := &booked{&node{uid: uid}, bk}
		n.Cluster = New(Config{UID: uid, Controller: e, Handler: n, Logger: slog.New(slog.DiscardHandler)})
		if err := n.Listen(); err != nil {
			t.Fatal(err)
		}
		n.Start()
		nodes[uid] = n
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond) // clocks differ
	}
	var wg sync.WaitGroup
	answers := make(chan answer, 1000)
	ask := func(uid, user string) {
		start := time.Now()
		err := nodes[uid].Tell(context.Background(), &control.Command{Disconnect: &control.Disconnect{User: user}})
		answers <- answer{user: user, by: uid, at: time.Now(), took: time.Since(start), err: err}
	}
	m.mu.Lock()
	m.bad = true
	m.mu.Unlock()
	live := uids
	if seed%2 == 0 {
		live = uids[:4]
		wg.Go(func() {
			time.Sleep(time.Duration(seed) * time.Second / 4)
			m.mu.Lock()
			m.ends[killed].dead = true
			m.mu.Unlock()
		})
	}
	for i := range 30 {
		uid, at := live[rng.IntN(len(live))], time.Duration(rng.IntN(60_000))*time.Millisecond
		wg.Go(func() { time.Sleep(at); ask(uid, fmt.Sprint(i)) })
	}
	for _, uid := range live[1:] {
		begin := time.Now().Add(time.Duration(rng.IntN(50_000)) * time.Millisecond)
		m.mu.Lock()
		m.ends[uid].away = append(m.ends[uid].away, [2]time.Time{begin, begin.Add(time.Duration(rng.IntN(3_000)) * time.Millisecond)})
		m.mu.Unlock()
		at, d := time.Duration(rng.IntN(40_000))*time.Millisecond, time.Duration(rng.IntN(20_000))*time.Millisecond
		wg.Go(func() { time.Sleep(at); m.ends[uid].pause(d) })
	}
	wg.Wait()
	m.mu.Lock()
	m.bad = false
	m.mu.Unlock()
	time.Sleep(time.Minute)
	close(answers)
	bk.mu.Lock()
	defer bk.mu.Unlock()
	for a := range answers {
		if a.took > tellTimeout {
			t.Errorf("seed %d: command %s took %v", seed, a.user, a.took)
		}
		if a.err != nil {
			failed++
		} else {
			held++
		}
		for _, uid := range live {
			if uid != a.by {
				checkBook(t, seed, m, a, uid, bk.done[a.user][uid])
			}
		}
	}
	for _, n := range nodes {
		n.Leave(t.Context())
		n.Close()
	}
	return held, failed
}

// checkBook compares what was promised of a command with what a node did.
func checkBook(t *testing.T, seed uint64, m *medium, a answer, uid string, done []time.Time) {
	switch {
	case len(done) > 1:
		t.Errorf("seed %d: node %s did command %s %d times", seed, uid, a.user, len(done))
	case a.err != nil && len(done) > 0 && done[0].After(a.at):
		t.Errorf("seed %d: node %s did command %s %v after the answer %q", seed, uid, a.user, done[0].Sub(a.at), a.err)
	case a.err == nil && len(done) == 0:
		t.Errorf("seed %d: node %s never did command %s, which holds", seed, uid, a.user)
	case a.err == nil && done[0].After(a.at) && m.heard(uid, a.by, a.at):
		t.Errorf("seed %d: node %s did command %s %v after it was said to hold", seed, uid, a.user, done[0].Sub(a.at))
	}
	if a.err != nil && !strings.Contains(a.err.Error(), "node ") && !strings.Contains(a.err.Error(), "medium fails") && !errors.Is(a.err, context.DeadlineExceeded) {
		t.Errorf("seed %d: %v", seed, a.err)
	}
}

func disconnect(user string) *control.Command {
	return &control.Command{Disconnect: &control.Disconnect{User: user}}
}

func users(n *node) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, cmd := range n.applied {
		all = append(all, cmd.Disconnect.User)
	}
	return strings.Join(all, " ")
}

// toldLater checks that a node has done commands for these users when it is back after a time, or none if it was away too long.
func toldLater(t *testing.T, n *node, want string, away time.Duration) {
	t.Helper()
	time.Sleep(forgetAfter - 10*time.Second)
	if away > forgetAfter {
		want = ""
	}
	if users(n) != want {
		t.Errorf("away for %v: %s did %q, want %q", away, n.uid, users(n), want)
	}
}

// A node that nobody receives for is not waited for, and gets the command when it is back. One that has another connection
// soon is.
func TestTellANodeThatIsGone(t *testing.T) {
	for _, tt := range []struct{ away, took time.Duration }{
		{100 * time.Millisecond, firstPause},
		{time.Minute, 3 * firstPause},
		{time.Hour, 3 * firstPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b, c := three(t)
			b.engine.Gone(true)
			go func() {
				time.Sleep(tt.away)
				b.engine.Gone(false)
			}()
			start := time.Now()
			err := a.Tell(t.Context(), disconnect("u"))
			if took := time.Since(start); err != nil || took != tt.took {
				t.Errorf("%+v: after %v: %v", tt, took, err)
			}
			if users(c) != "u" {
				t.Errorf("%+v: c did %q", tt, users(c))
			}
			start = time.Now()
			if err := a.Tell(t.Context(), disconnect("v")); err != nil || time.Since(start) != 0 {
				t.Errorf("%+v: the next command: after %v: %v", tt, time.Since(start), err)
			}
			toldLater(t, b, "u v", tt.away)
			time.Sleep(tt.away) // for the goroutine above
		})
	}
}

// While a node is silent, a command takes no longer than the others need.
func TestTellBesideASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := three(t)
		b.engine.Cut(true)
		time.Sleep(silentAfter + time.Second)
		start := time.Now()
		if err := a.Tell(t.Context(), disconnect("u")); err != nil || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// What happens to a command when a node is cut off for some time, from the moment at
// which it is given.
func TestTellANodeThatIsCutOff(t *testing.T) {
	for _, tt := range []struct {
		silence, away time.Duration // before the command, and behind it
		took          time.Duration
		fails         bool
	}{
		{0, 0, 0, false},
		{0, 4 * time.Second, 4400 * time.Millisecond, false}, // with the next copy
		{0, time.Hour, silentAfter, false},
		{5 * time.Second, time.Hour, silentAfter - 5*time.Second, false},
		{20 * time.Second, time.Hour, 0, false},
		{20 * time.Second, time.Minute, 0, false}, // and it is told when it is back
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b, c := three(t)
			if tt.away > 0 {
				b.engine.Cut(true)
			}
			time.Sleep(tt.silence)
			go func() {
				time.Sleep(tt.away)
				b.engine.Cut(false)
			}()
			start := time.Now()
			err := a.Tell(t.Context(), disconnect("u"))
			took := time.Since(start)
			if err != nil || took < min(tt.took, tt.took-time.Second) || took > tt.took+time.Second {
				t.Errorf("%+v: after %v: %v", tt, took, err)
			}
			if users(c) != "u" {
				t.Errorf("%+v: c did %q", tt, users(c))
			}
			toldLater(t, b, "u", tt.away)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(a.commands) != 0 || a.undelivered != 0 || a.undeliveredBytes != 0 {
				t.Errorf("%+v: %d commands are kept, %d of %d bytes undelivered", tt, len(a.commands), a.undelivered, a.undeliveredBytes)
			}
			time.Sleep(tt.away)
		})
	}
}

// A node does not know the nodes that were silent when it started. They get its commands when they are back, but nodes
// that started later do not.
func TestTellANodeThatIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a := join(t, bus, "a")
		synctest.Wait()
		a.engine.Cut(true)
		time.Sleep(time.Minute)
		b := join(t, bus, "b")
		synctest.Wait()
		if err := b.Tell(t.Context(), disconnect("u")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c := join(t, bus, "c")
		a.engine.Cut(false)
		time.Sleep(2 * pingInterval)
		synctest.Wait()
		if users(a) != "u" || users(c) != "" {
			t.Errorf("a did %q, c %q", users(a), users(c))
		}
		time.Sleep(forgetAfter + cleanInterval)
		synctest.Wait()
		if len(b.commands) != 0 || len(b.kept) != 0 || b.keptBytes != 0 {
			t.Errorf("%d commands and %d bytes are kept", len(b.commands)+len(b.kept), b.keptBytes)
		}
	})
}

// What is kept for unknown nodes has a bound, and the log says once when it is reached.
func TestKeepForStrangersIsBounded(t *testing.T) {
	var log strings.Builder
	c := New(Config{UID: "a", Clocks: clocks.New("a", nil), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range maxUndelivered + 5 {
		c.keepForStrangers(&pendingCommand{at: time.Now(), size: 10})
	}
	if n := strings.Count(log.String(), "no more commands are kept"); len(c.kept) != maxUndelivered || c.keptBytes != 10*maxUndelivered || n != 1 {
		t.Errorf("%d commands and %d bytes are kept, the log says so %d times", len(c.kept), c.keptBytes, n)
	}
}

// A node that gives signs of life but does not confirm is named.
func TestTellNamesWhoDoesNotConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a := join(t, bus, "a")
		sign := func(protocol uint32) {
			bus.Inject("", (&control.Command{UID: "x", Node: &control.Node{UID: "x", Name: "mute", Protocol: protocol}}).AppendProto(nil))
		}
		sign(control.Confirms - 1)
		if err := a.Tell(t.Context(), disconnect("u")); err != nil {
			t.Errorf("a node of a version that does not confirm: %v", err)
		}
		for _, timeout := range []time.Duration{time.Second, time.Minute} {
			want := min(timeout, tellTimeout)
			stop := make(chan struct{})
			go func() {
				for {
					sign(control.Confirms)
					select {
					case <-stop:
						return
					case <-time.After(time.Second):
					}
				}
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			start := time.Now()
			err := a.Tell(ctx, disconnect("u"))
			if took := time.Since(start); !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "node x (mute)") || took != want {
				t.Errorf("after %v: %v", took, err)
			}
			cancel()
			close(stop)
			synctest.Wait()
		}
	})
}

// An engine that takes no message fails the command soon, and if it carries it later all
// the same, it is not done.
func TestTellWithoutAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		synctest.Wait()
		down := errors.New("down")
		a.engine.Fail(down)
		start := time.Now()
		if err := a.Tell(t.Context(), disconnect("u")); !errors.Is(err, down) || time.Since(start) != validFor {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		go func() {
			time.Sleep(time.Second)
			a.engine.Fail(nil)
		}()
		if err := a.Tell(t.Context(), disconnect("v")); err != nil {
			t.Error(err)
		}
		if users(b) != "v" {
			t.Errorf("b did %q", users(b))
		}
	})
}

// A copy that was kept back is done until its time is over, and each command once.
func TestCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		b := join(t, bus, "b")
		from := func(id uint64, user string, to ...*control.Addressee) {
			cmd := disconnect(user)
			cmd.UID, cmd.ID, cmd.To = "x", id, to
			bus.Inject("b", cmd.AppendProto(nil))
		}
		now := int64(b.clock.now())
		from(1, "in-time", &control.Addressee{UID: "b", Until: now})
		from(1, "in-time", &control.Addressee{UID: "b", Until: now})
		from(2, "late", &control.Addressee{UID: "b", Until: now - 1})
		from(3, "for-another", &control.Addressee{UID: "c", Until: now - 1})
		from(0, "old", nil...)
		from(0, "old", nil...)
		if got := users(b); got != "in-time for-another old old" {
			t.Error(got)
		}
	})
}

func TestDoneBeforeIsBounded(t *testing.T) {
	var d doneBefore
	now := time.Now()
	for i := range uint64(5 * maxRemembered) {
		if d.note("x", i, now) || !d.note("x", i, now) {
			t.Fatalf("command %d", i)
		}
	}
	if n := len(d.young) + len(d.old); n > 2*maxRemembered {
		t.Errorf("%d are remembered", n)
	}
	for range 2 {
		now = now.Add(rememberFor)
		if !d.note("x", 5*maxRemembered-1, now) {
			t.Error("forgotten too early")
		}
		now = now.Add(1)
		d.note("y", uint64(now.UnixNano()), now)
		now = now.Add(-rememberFor)
	}
}

// A clock never loses time, whichever of the system's clocks does.
func TestClock(t *testing.T) {
	var c clock
	now := time.Now()
	wall := now.UnixNano()
	c.at(now, wall)
	if d := c.at(now.Add(time.Second), wall+int64(time.Second)); d != time.Second {
		t.Error(d)
	}
	// The machine was suspended: the wall clock alone went on.
	if d := c.at(now.Add(2*time.Second), wall+int64(time.Hour)); d != time.Hour {
		t.Error(d)
	}
	// The wall clock is set back.
	if d := c.at(now.Add(2*time.Second), wall); d != time.Hour {
		t.Error(d)
	}
}

// What a node believes of another's clock is never ahead of it: neither because a sign
// of life was late, nor because that clock is slower.
func TestUntilIsEarly(t *testing.T) {
	r := newRegistry()
	rng := rand.New(rand.NewPCG(1, 1))
	const slower = 2000 // loses one part in so many
	theirs := func(at time.Duration) time.Duration { return time.Hour + at - at/slower }
	for at := time.Duration(0); at < 24*time.Hour; at += 3 * time.Second {
		late := time.Duration(rng.IntN(2000)) * time.Millisecond
		r.put(&control.Node{UID: "x", Clock: int64(theirs(at))}, r.start.Add(at+late))
		now := at + late + time.Duration(rng.IntN(1000))*time.Millisecond
		until := time.Duration(r.until(r.nodes["x"], r.start.Add(now), time.Second))
		if right := theirs(now + time.Second); until > right || until < right-3*time.Second {
			t.Fatalf("at %v: %v, which is not a bit before %v", at, until, right)
		}
	}
}

// A node that was itself cut off, or stopped, knows nothing of the others by their silence.
func TestTellAfterDeafness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		synctest.Wait()
		a.engine.Cut(true)
		b.engine.Cut(true)
		time.Sleep(time.Minute)
		if err := a.Tell(t.Context(), disconnect("deaf")); !errors.Is(err, ErrNoAnswer) {
			t.Error(err)
		}
		a.engine.Cut(false)
		if _, err := a.Survey(t.Context(), "op", nil, ""); err == nil || !strings.Contains(err.Error(), "node b (name of b)") {
			t.Error(err)
		}
		a.engine.Cut(true)
		time.Sleep(time.Minute)
		a.engine.Cut(false)
		go func() {
			time.Sleep(3 * time.Second)
			b.engine.Cut(false)
		}()
		if err := a.Tell(t.Context(), disconnect("back")); err != nil || users(b) != "back" {
			t.Errorf("b did %q, %v", users(b), err)
		}
	})
}

// What is kept for silent nodes has a bound, beyond which a command fails.
func TestOwedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		synctest.Wait()
		b.engine.Cut(true)
		time.Sleep(silentAfter + time.Second)
		for range maxUndelivered {
			if err := a.Tell(t.Context(), disconnect("u")); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Tell(t.Context(), disconnect("u")); !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "node b") || !strings.Contains(err.Error(), "1024") {
			t.Error(err)
		}
		b.engine.Cut(false)
		time.Sleep(pingInterval)
		synctest.Wait()
		if n := len(b.applied); n != maxUndelivered || a.undelivered != 0 || a.undeliveredBytes != 0 || len(a.commands) != 0 {
			t.Errorf("b did %d commands, %d are kept, %d of %d bytes undelivered", n, len(a.commands), a.undelivered, a.undeliveredBytes)
		}
		big := &control.Command{Refresh: &control.Refresh{Info: make([]byte, maxUndeliveredBytes)}}
		b.engine.Cut(true)
		time.Sleep(silentAfter + time.Second)
		if err := a.Tell(t.Context(), big); !errors.Is(err, ErrNoAnswer) {
			t.Error(err)
		}
	})
}
