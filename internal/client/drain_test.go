package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is so many connections on each of some loops.
type crowd []int

func (c crowd) round(portion drainPortion) (left int, err error) {
	for i := range c {
		c[i] -= min(c[i], portion(i, c[i]))
		left += c[i]
	}
	return left, nil
}

func TestEven(t *testing.T) {
	for _, sizes := range []crowd{{5000}, {5000, 0, 100}, {1000, 1000, 1000, 1000}, {40_000, 1}} {
		synctest.Test(t, func(t *testing.T) {
			const over = 10 * time.Second
			total := 0
			for _, n := range sizes {
				total += n
			}
			start := time.Now()
			err := spreadEnds(t.Context(), over, len(sizes), func(p drainPortion) (int, error) {
				left, err := sizes.round(p)
				want := float64(total) * (1 - float64(time.Since(start))/float64(over))
				if diff := float64(left) - want; diff > float64(total)/12 || diff < -float64(total)/12 {
					t.Errorf("after %v %d of %d are left, want %.0f", time.Since(start), left, total, want)
				}
				return left, err
			})
			if took := time.Since(start); err != nil || took < over-4*drainPause || took > over+2*drainPause {
				t.Errorf("%v after %v", err, took)
			}
		})
	}
}

func TestFewAreQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := spreadEnds(t.Context(), time.Hour, 2, crowd{100, 60}.round); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		if err := spreadEnds(t.Context(), time.Hour, 1, func(drainPortion) (int, error) { return 1, failed }); !errors.Is(err, failed) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := spreadEnds(ctx, time.Hour, 1, crowd{1_000_000}.round); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for _, over := range []time.Duration{0, -time.Second} {
			start := time.Now()
			if err := spreadEnds(t.Context(), over, 1, crowd{1_000_000}.round); err != nil || time.Since(start) != 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
	})
}
