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

// Checks last as long as their channels are routed.
func TestChecks(t *testing.T) {
	ctx := context.Background()
	table := New(&local{fake{subscribed: make(map[string]bool)}})
	checks := func() map[string]Check {
		m := make(map[string]Check)
		for i := range Buckets {
			table.Checked(i, func(ch string, c Check) { m[ch] = c })
		}
		if table.HasChecked() != (len(m) > 0) {
			t.Errorf("HasChecked with %v", m)
		}
		return m
	}
	for _, ch := range []string{"a", "b", "c"} {
		if _, err := table.Add(ctx, ch, 0); err != nil {
			t.Fatal(err)
		}
	}
	one, two, fragile := Check{TTL: 1}, Check{TTL: 2}, Check{Fragile: true}
	if len(checks()) != 0 || table.SetCheck("nobody", one) {
		t.Error("there are checks that nobody made")
	}
	if !table.SetCheck("a", one) || table.SetCheck("a", one) || table.SetCheck("a", two) || !table.SetCheck("b", fragile) {
		t.Error("the first check of a channel is not the first, or another one is")
	}
	if table.CheckOf("b") == (Check{}) || table.CheckOf("c") != (Check{}) {
		t.Error("CheckOf is wrong")
	}
	if got := checks(); !maps.Equal(got, map[string]Check{"a": two, "b": fragile}) {
		t.Errorf("checks %v", got)
	}
	for _, ch := range []string{"a", "b", "c"} {
		if err := table.Remove(ctx, ch, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := checks(); len(got) != 0 {
		t.Errorf("checks %v of channels that are not routed", got)
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
