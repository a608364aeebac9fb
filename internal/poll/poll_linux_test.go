package poll

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// probe notes what it is told.
type probe struct {
	p     *Poller
	calls []string
	then  func()
	ended int
}

func always() bool { return true }

// watched is how many descriptors have a watcher.
func watched(p *Poller) (n int) {
	for _, v := range p.watched {
		if v.w != nil {
			n++
		}
	}
	return n
}

func (w *probe) Ready(readable, writable bool) {
	s := ""
	if readable {
		s += "r"
	}
	if writable {
		s += "w"
	}
	w.calls = append(w.calls, s)
	if w.then != nil {
		w.then()
	}
}

func (w *probe) Ended() { w.ended++ }

func (w *probe) take(t *testing.T, want string) {
	t.Helper()
	w.p.Poll(always, new(any))
	got := ""
	for _, c := range w.calls {
		got += c
	}
	if w.calls = nil; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

func newPoller(t *testing.T) *Poller {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPoll(t *testing.T) {
	p := newPoller(t)
	a, b := pair(t)
	w := &probe{p: p}
	must(t, p.Watch(a, w, true, false))
	w.take(t, "")
	_, err := syscall.Write(b, []byte("xy"))
	must(t, err)
	w.take(t, "r")
	w.take(t, "r") // until it is read
	must(t, p.Change(a, true, true))
	w.take(t, "rw")
	must(t, p.Change(a, false, false))
	w.take(t, "")
	must(t, p.Change(a, true, false))
	must(t, syscall.Close(b))
	w.take(t, "rw") // a hang-up
	p.Unwatch(a)
	p.Unwatch(a)
	w.take(t, "")
	if watched(p) != 0 {
		t.Errorf("%d left", watched(p))
	}
	must(t, syscall.Close(a))
	if err := p.Watch(a, w, true, false); err == nil {
		t.Error("a closed descriptor can be watched")
	}
}

// A watcher may take the place of another one, also within the other's call.
func TestReplace(t *testing.T) {
	p := newPoller(t)
	a, b := pair(t)
	defer syscall.Close(a)
	defer syscall.Close(b)
	first, second := &probe{p: p}, &probe{p: p}
	first.then = func() { must(t, p.Watch(a, second, true, false)) }
	must(t, p.Watch(a, first, true, false))
	_, err := syscall.Write(b, []byte("x"))
	must(t, err)
	first.take(t, "r")
	first.take(t, "")
	second.take(t, "rr")
	must(t, p.Watch(a, first, false, true))
	first.then = nil
	first.take(t, "w")
	if watched(p) != 1 {
		t.Errorf("%d watched", watched(p))
	}
	p.Unwatch(a)
	first.take(t, "")
}

// A watcher may take another one away that is ready in the same batch.
func TestUnwatchWithinPoll(t *testing.T) {
	p := newPoller(t)
	a, b := pair(t)
	defer syscall.Close(a)
	defer syscall.Close(b)
	first, second := &probe{p: p}, &probe{p: p}
	first.then = func() { p.Unwatch(b) }
	second.then = func() { p.Unwatch(a) }
	must(t, p.Watch(a, first, false, true))
	must(t, p.Watch(b, second, false, true))
	p.Poll(always, new(any))
	if n := len(first.calls) + len(second.calls); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// Who still watches when the poller closes is told.
func TestEnded(t *testing.T) {
	p, err := New()
	must(t, err)
	a, b := pair(t)
	defer syscall.Close(a)
	defer syscall.Close(b)
	stays, goes := &probe{p: p}, &probe{p: p}
	must(t, p.Watch(a, stays, true, false))
	must(t, p.Watch(b, goes, true, false))
	p.Unwatch(b)
	p.Close()
	if stays.ended != 1 || goes.ended != 0 {
		t.Errorf("told %d and %d times", stays.ended, goes.ended)
	}
}

// Whoever polls until nothing is ready, and again after each wake of Wait, misses nothing. Wait ends
// when the poller is closed.
func TestWait(t *testing.T) {
	p := newPoller(t)
	wake, ended := make(chan struct{}, 1), make(chan struct{})
	begin := func() {
		p.Wait(func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		close(ended)
	}
	const rounds = 20_000
	read, more := 0, make(chan struct{}, 1)
	var written [2]int
	for i := range written {
		a, b := pair(t)
		defer syscall.Close(a)
		defer syscall.Close(b)
		must(t, p.Watch(a, reader(func() {
			var one [1]byte // there may be more
			if n, _ := syscall.Read(a, one[:]); n == 1 {
				if read++; read%2 == 0 {
					more <- struct{}{}
				}
			}
		}), true, false))
		written[i] = b
	}
	_, err := syscall.Write(written[0], []byte("xy")) // before anybody waits
	must(t, err)
	go begin()
	go func() {
		for n := range rounds / 2 {
			<-more // comes while the reader polls
			if _, err := syscall.Write(written[n%2], []byte("xy")); err != nil {
				t.Error(err)
			}
		}
	}()
	for read < rounds+2 {
		for p.Poll(always, new(any)) {
			// There may be more.
		}
		if read == rounds+2 {
			break
		}
		wait.Receive(t, fmt.Sprintf("a wake-up after %d of %d reads", read, rounds+2), wake)
	}
	p.Close()
	<-ended
}

// reader is a Watcher that is called when its socket is readable.
type reader func()

func (r reader) Ready(readable, _ bool) {
	if readable {
		r()
	}
}

func (reader) Ended() {}

func BenchmarkPollNothing(b *testing.B) {
	p, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		p.Poll(always, new(any))
	}
}

// Who is not served for lack of time is first in the next Poll.
func TestPollInParts(t *testing.T) {
	p := newPoller(t)
	var served []int
	const sockets = 10
	for i := range sockets {
		a, b := pair(t)
		defer syscall.Close(a)
		defer syscall.Close(b)
		w := &probe{p: p}
		w.then = func() { served = append(served, i) }
		must(t, p.Watch(a, w, false, true))
	}
	for len(served) < 2*sockets {
		budget := 3
		if !p.Poll(func() bool { budget--; return budget >= 0 }, new(any)) {
			t.Fatal("nothing is ready")
		}
	}
	for i := range sockets {
		if n := count(served[:sockets], i); n != 1 {
			t.Errorf("socket %d was served %d times in the first round: %v", i, n, served)
		}
	}
}

func count(list []int, want int) (n int) {
	for _, v := range list {
		if v == want {
			n++
		}
	}
	return n
}

// A descriptor that was forgotten and closed is not watched any more, and its number can be watched again.
func TestForget(t *testing.T) {
	p := newPoller(t)
	a, b := pair(t)
	defer syscall.Close(b)
	before, after := &probe{p: p}, &probe{p: p}
	must(t, p.Watch(a, before, true, false))
	_, err := syscall.Write(b, []byte("x"))
	must(t, err)
	p.Forget(a)
	p.Forget(1 << 20) // one that was never watched
	must(t, syscall.Close(a))
	before.take(t, "")
	if watched(p) != 0 {
		t.Errorf("%d left", watched(p))
	}
	c, d := pair(t)
	defer syscall.Close(d)
	if c != a {
		must(t, syscall.Dup3(c, a, 0))
		must(t, syscall.Close(c))
	}
	defer syscall.Close(a)
	must(t, p.Watch(a, after, true, false))
	after.take(t, "")
	_, err = syscall.Write(d, []byte("y"))
	must(t, err)
	after.take(t, "r")
	if before.calls != nil {
		t.Errorf("the watcher of the closed descriptor was told %q", before.calls)
	}
}
