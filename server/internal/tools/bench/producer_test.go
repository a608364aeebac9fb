package bench

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a sender that has room, and notes when it sends.
type recorder struct {
	begun time.Time
	sent  []time.Duration
}

func (*recorder) room(_ context.Context, most int) (int, error) { return most, nil }

func (s *recorder) send(_ context.Context, items []item) error {
	for range items {
		s.sent = append(s.sent, time.Since(s.begun))
	}
	return nil
}

func (*recorder) flush(context.Context) error { return nil }

// TestProduceRate: publications are as far apart as the rate says, until the duration is over.
func TestProduceRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const apart = time.Second / 128 // has no fractions of nanoseconds
		r := &run{target: &Target{Size: MinSize}, channels: []string{"c"}, began: time.Now()}
		s := &recorder{begun: time.Now()}
		p := r.newProducer(10, 128)
		p.sender = s
		if err := p.produce(t.Context(), quota{until: s.begun.Add(time.Second / 4)}); err != nil {
			t.Fatal(err)
		}
		var want []time.Duration
		for i := range time.Duration(32) {
			want = append(want, i*apart)
		}
		if !slices.Equal(s.sent, want) {
			t.Errorf("%v, want %v", s.sent, want)
		}
	})
}
