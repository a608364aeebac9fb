package atlas

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/wire"
)

// writer changes one map, and knows the right entries. It repeats each change, with the same idempotency key, until it
// is acknowledged.
type writer struct {
	channel string
	// brief is a map whose entries expire; each key is set once.
	brief  string
	run    string
	nodes  []string
	every  time.Duration
	client *http.Client
	note   func(err error, took time.Duration) // of each answer
	fail   func(string)
	// still is locked for writing while nothing may change.
	still *sync.RWMutex

	entries map[string]string // guarded by still
	next    int               // node
	set     atomic.Int64      // how many changes of channel have set an entry
}

const keys = 17

// raceKey begins keys that two nodes set at a time.
const raceKey = "race"

type result struct {
	Suppressed bool
}

func (w *writer) work(ctx context.Context) {
	w.entries = make(map[string]string)
	for n := 1; ctx.Err() == nil; n++ {
		w.still.RLock()
		key := fmt.Sprintf("k%d", n*7%keys)
		if n%5 == 0 {
			if w.insist(ctx, "map_remove", map[string]any{"channel": w.channel, "key": key}, n) {
				delete(w.entries, key)
			}
		} else {
			value := fmt.Sprintf(`{"n":%d}`, n)
			if w.insist(ctx, "map_publish", map[string]any{"channel": w.channel, "key": key, "data": map[string]int{"n": n}}, n) {
				w.entries[key] = value
				w.set.Add(1)
			}
		}
		if n%4 == 0 {
			w.insist(ctx, "map_publish", map[string]any{"channel": w.brief, "key": fmt.Sprint("b", n), "data": n}, -n)
		}
		if n%10 == 0 {
			w.race(ctx, n)
		}
		w.still.RUnlock()
		wire.Sleep(ctx, w.every)
	}
}

// insist asks one node after the other until one acknowledges the change.
func (w *writer) insist(ctx context.Context, method string, params map[string]any, n int) bool {
	params["idempotency_key"] = fmt.Sprintf("%s-%d", w.run, n)
	for ctx.Err() == nil {
		w.next++
		start := time.Now()
		err := rig.Call(ctx, w.client, w.nodes[w.next%len(w.nodes)], method, params, nil)
		if ctx.Err() != nil {
			return false
		}
		w.note(err, time.Since(start))
		if err == nil {
			return true
		}
		wire.Sleep(ctx, 50*time.Millisecond)
	}
	return false
}

// race makes two nodes set a new key at a time: one of them wins. After an error either may have won.
func (w *writer) race(ctx context.Context, n int) {
	key := fmt.Sprint(raceKey, n)
	var results [2]result
	var errs [2]error
	var both sync.WaitGroup
	for i := range results {
		both.Go(func() {
			errs[i] = rig.Call(ctx, w.client, w.nodes[(w.next+i)%len(w.nodes)], "map_publish",
				map[string]any{"channel": w.channel, "key": key, "data": i, "key_mode": "if_new"}, &results[i])
		})
	}
	both.Wait()
	if ctx.Err() == nil && errs[0] == nil && errs[1] == nil && results[0].Suppressed == results[1].Suppressed {
		w.fail(fmt.Sprintf("%s: both nodes that set %s were told %+v", w.channel, key, results[0]))
	}
	w.insist(ctx, "map_remove", map[string]any{"channel": w.channel, "key": key}, n+1_000_000)
}
