package poll

import (
	"syscall"
	"testing"
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

// Wait returns when something becomes ready, also when that happened before, and
// when the poller is closed.
func TestWait(t *testing.T) {
	p := newPoller(t)
	a, b := pair(t)
	defer syscall.Close(a)
	defer syscall.Close(b)
	w := &probe{p: p}
	must(t, p.Watch(a, w, true, false))
	waited := make(chan error)
	next := make(chan struct{})
	go func() {
		for {
			err := p.Wait()
			waited <- err
			if err != nil {
				return
			}
			<-next
		}
	}()
	var one [1]byte
	for range 1000 {
		_, err := syscall.Write(b, one[:])
		must(t, err)
		must(t, <-waited)
		w.take(t, "r")
		_, err = syscall.Read(a, one[:])
		must(t, err)
		next <- struct{}{}
	}
	p.Close()
	if err := <-waited; err == nil {
		t.Error("Wait does not tell of Close")
	}
}

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
