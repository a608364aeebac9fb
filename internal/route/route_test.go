package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/broker"
)

// fake is a broker that knows what is subscribed and fails now and then.
type fake struct {
	broker.Broker
	mu         sync.Mutex
	failEvery  int
	calls      int
	subscribed map[string]bool
}

var errFake = errors.New("no")

func (f *fake) Describe() broker.Traits { return broker.Traits{} }

func (f *fake) Subscribe(_ context.Context, channels ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribed[channels[0]] = true
	if f.calls++; f.failEvery > 0 && f.calls%f.failEvery == 0 {
		return errFake // although it is subscribed
	}
	return nil
}

func (f *fake) Unsubscribe(_ context.Context, channels ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subscribed, channels[0])
	return nil
}

func TestTable(t *testing.T) {
	ctx := context.Background()
	f := &local{fake{subscribed: make(map[string]bool)}}
	table := New(f)
	first, err := table.Add(ctx, "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := table.Add(ctx, "a", 1); again != first {
		t.Errorf("IDs %d and %d of one channel", first, again)
	}
	if other, _ := table.Add(ctx, "b", 1); other == first {
		t.Error("one ID of two channels")
	}
	if l := table.Find("a").Loops(); !l.Has(0) || !l.Has(1) || l.Has(2) {
		t.Errorf("loops %b", l)
	}
	if table.Size() != 2 || f.calls != 2 {
		t.Errorf("%d channels, %d subscribed", table.Size(), f.calls)
	}
	for _, loop := range []int{0, 1} {
		if !f.subscribed["a"] || table.Find("a") == nil {
			t.Error("a was forgotten too early")
		}
		if err := table.Remove(ctx, "a", loop); err != nil {
			t.Error(err)
		}
	}
	if f.subscribed["a"] || table.Find("a") != nil || table.Remove(ctx, "a", 0) != nil {
		t.Error("a is still there")
	}
	if got := all(table); len(got) != 1 || got[0] != "b" || table.Size() != 1 {
		t.Errorf("%v, and %d channels", got, table.Size())
	}
}

// all lists the channels of a table.
func all(t *Table) (channels []string) {
	for i := range Buckets {
		channels = t.Channels(channels, i)
	}
	return channels
}

// local is a fake that is left at once.
type local struct{ fake }

func (*local) Describe() broker.Traits { return broker.Traits{Local: true} }

// Marks last as long as their channels are routed.
func TestMarks(t *testing.T) {
	ctx := context.Background()
	table := New(&local{fake{subscribed: make(map[string]bool)}})
	marks := func() map[string]uint8 {
		m := make(map[string]uint8)
		for i := range Buckets {
			table.Marked(i, func(ch string, mark uint8) { m[ch] = mark })
		}
		if table.HasMarked() != (len(m) > 0) {
			t.Errorf("HasMarked with %v", m)
		}
		return m
	}
	for _, ch := range []string{"a", "b", "c"} {
		if _, err := table.Add(ctx, ch, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(marks()) != 0 || table.Mark("nobody", 1) {
		t.Error("there are marks that nobody made")
	}
	if !table.Mark("a", 1) || table.Mark("a", 1) || table.Mark("a", 2) || !table.Mark("b", 255) {
		t.Error("the first mark of a channel is not the first, or another one is")
	}
	if got := marks(); !maps.Equal(got, map[string]uint8{"a": 2, "b": 255}) {
		t.Errorf("marks %v", got)
	}
	for _, ch := range []string{"a", "b", "c"} {
		if err := table.Remove(ctx, ch, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := marks(); len(got) != 0 {
		t.Errorf("marks %v of channels that are not routed", got)
	}
}

// Whatever fails meanwhile: what is added is subscribed, and nothing is left.
func TestTableConcurrently(t *testing.T) {
	ctx := context.Background()
	f := &local{fake{subscribed: make(map[string]bool), failEvery: 5}}
	table := New(f)
	var wg sync.WaitGroup
	for worker := range 8 {
		r := rand.New(rand.NewPCG(1, uint64(worker)))
		wg.Go(func() {
			for range 2000 {
				ch := fmt.Sprint("ch", r.IntN(4))
				if _, err := table.Add(ctx, ch, worker); err != nil {
					continue
				}
				f.mu.Lock()
				if !f.subscribed[ch] {
					t.Errorf("%s is not subscribed", ch)
				}
				f.mu.Unlock()
				if l := table.Find(ch).Loops(); !l.Has(worker) {
					t.Errorf("loop %d is not among %b", worker, l)
				}
				_ = table.Remove(ctx, ch, worker)
			}
		})
	}
	wg.Wait()
	if table.Size() != 0 || len(f.subscribed) != 0 {
		t.Errorf("%d channels, %v subscribed", table.Size(), f.subscribed)
	}
}
