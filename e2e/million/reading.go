//go:build linux

package million

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

var reads = []struct {
	method, params string // %s is the channel
	class          plan.Class
}{
	{"presence", `{"channel":%q}`, plan.Room},
	{"presence_stats", `{"channel":%q}`, plan.Room},
	{"history", `{"channel":%q,"limit":20}`, plan.Hundred},
}

const readRate = 50

var reading = Phase{Name: "reads", Title: "Presence and history, beside publications", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	channels := append(s.Some(plan.Hundred, 100), s.Some(plan.Room, 100)...)
	publication := Publication{Channels: channels, Rate: 100, For: 2 * s.options.Step}
	alone, err := s.Step(ctx, publication)
	if err != nil {
		return &out.Section, err
	}
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	times, errs := make([]*hdrhistogram.Histogram, len(reads)), make([]error, len(reads))
	var all sync.WaitGroup
	for i := range reads {
		times[i] = load.NewHistogram()
		all.Go(func() { errs[i] = s.read(during, i, times[i]) })
	}
	beside, err := s.Step(ctx, publication)
	cancel()
	all.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return &out.Section, err
	}
	out.add("publications", publication.Rate, "1/s")
	out.add("deliveries", beside.Delivered, "1/s")
	out.add("p99 of deliveries without reads", alone.P99, "ms")
	out.add("p99 of deliveries with reads", beside.P99, "ms")
	for i, r := range reads {
		out.add(r.method+": requests", float64(times[i].TotalCount())/beside.Spent.Seconds, "1/s")
		out.add(r.method+" p50", float64(times[i].ValueAtQuantile(50))/1000, "ms")
		out.add(r.method+" p99", float64(times[i].ValueAtQuantile(99))/1000, "ms")
	}
	out.spent(beside.Spent)
	return &out.Section, nil
}}

// read asks another node about another channel each time. A time begins when the request was due.
func (s *Stand) read(ctx context.Context, i int, times *hdrhistogram.Histogram) error {
	r, begin := reads[i], time.Now()
	for n := 0; ; n++ {
		due := begin.Add(time.Duration(n) * time.Second / readRate)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(due)):
		}
		channel := plan.At(r.class, n%min(100, s.Plan.Channels(r.class)))
		text, err := s.Publisher.post(ctx, s.Nodes[n%len(s.Nodes)].Addr, r.method, fmt.Appendf(nil, r.params, channel.String()))
		if err == nil {
			err = s.checkRead(r.method, channel, text)
		}
		if err != nil {
			return unlessOver(ctx, err)
		}
		_ = times.RecordValue(max(1, time.Since(due).Microseconds())) // within its bounds
	}
}

// unlessOver returns nil if the phase is over: then requests fail.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// checkRead: everybody is present, and there is a history.
func (s *Stand) checkRead(method string, channel plan.Channel, text []byte) error {
	var answer struct {
		Error  *json.RawMessage
		Result *struct {
			Presence     map[string]json.RawMessage
			NumClients   int `json:"num_clients"`
			Publications []json.RawMessage
		}
	}
	if err := json.Unmarshal(bytes.TrimSpace(text), &answer); err != nil || answer.Error != nil || answer.Result == nil {
		return fmt.Errorf("%s of %v: %.200s", method, channel, text)
	}
	r, want := answer.Result, s.Plan.Subscribers(channel)
	switch {
	case method == "presence" && len(r.Presence) != want:
		return fmt.Errorf("presence of %v: %d clients, not %d", channel, len(r.Presence), want)
	case method == "presence_stats" && r.NumClients != want:
		return fmt.Errorf("presence_stats of %v: %d clients, not %d", channel, r.NumClients, want)
	case method == "history" && len(r.Publications) == 0:
		return fmt.Errorf("history of %v is empty", channel)
	}
	return nil
}
