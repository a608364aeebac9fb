//go:build linux

package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const callTimeout = 15 * time.Second

// calls that several nodes have to answer, or that operators make of a cluster.
func (f *fleet) calls() []call {
	user := map[string]any{"user": "nobody-is-this"}
	withChannel := map[string]any{"user": "nobody-is-this", "channel": "plain:x"}
	api := func(method string, params any) call {
		return call{method, func(ctx context.Context, i int) error { return f.call(ctx, i, method, params, nil) }}
	}
	return []call{
		api("info", struct{}{}),
		api("channels", map[string]any{"pattern": "plain:*"}),
		api("connections", map[string]any{"user": "user-1"}),
		api("flight", map[string]any{"user": "user-1"}),
		api("explain", map[string]any{"user": "user-1", "channel": "plain:all"}),
		api("presence", map[string]any{"channel": "plain:all"}),
		api("presence_stats", map[string]any{"channel": "plain:all"}),
		api("disconnect", user),
		api("refresh", user),
		api("subscribe", withChannel),
		api("unsubscribe", withChannel),
		{"snapshot", func(ctx context.Context, i int) error {
			_, _, err := f.snapshot(ctx, i)
			return err
		}},
		{"admin nodes", func(ctx context.Context, i int) error {
			_, silent, err := f.vitals(ctx, i)
			if err == nil && len(silent) > 0 {
				err = fmt.Errorf("no answer of %q", silent)
			}
			return err
		}},
		{"metrics", func(ctx context.Context, i int) error {
			_, err := f.get(ctx, i, "/metrics")
			return err
		}},
	}
}

type call struct {
	name string
	make func(ctx context.Context, i int) error
}

type outcome struct {
	at, took time.Duration // when it began, and how long it took
	err      error
}

type outcomes struct {
	mu   sync.Mutex
	list []outcome
}

func (o *outcomes) add(began time.Time, c call, i int) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	at := time.Now()
	err := c.make(ctx, i)
	one := outcome{at.Sub(began), time.Since(at), err}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, one)
}

func (o *outcomes) took() (list []time.Duration) {
	for _, one := range o.list {
		list = append(list, one.took)
	}
	slices.Sort(list)
	return list
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (o *outcomes) String() string {
	all := o.took()
	text := fmt.Sprintf("%4d calls, p50 %s, p99 %s, max %s", len(all), ms(quantile(all, 0.5)), ms(quantile(all, 0.99)), ms(quantile(all, 1)))
	failed := 0
	var first, last outcome
	for _, one := range o.list {
		if one.err == nil {
			continue
		}
		failed++
		if failed == 1 {
			first = one
		}
		last = one
	}
	if failed > 0 {
		text += fmt.Sprintf("; %d failed, from %.1f s to %.1f s: %.160s", failed, first.at.Seconds(), (last.at + last.took).Seconds(), first.err)
	}
	return text
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
