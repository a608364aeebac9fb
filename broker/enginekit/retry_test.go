package enginekit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 5 * time.Second}
	for attempt, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if got := b.Pause(attempt); got != want {
			t.Errorf("after attempt %d: %v, want %v", attempt, got, want)
		}
	}
	if got := b.Pause(1 << 40); got != 5*time.Second {
		t.Errorf("after many attempts: %v", got)
	}
	if got := b.Pause(-1); got != time.Second {
		t.Errorf("after an attempt without a number: %v", got)
	}
}

func TestJitter(t *testing.T) {
	for range 1000 {
		if got := Jitter(time.Second); got < time.Second/2 || got >= time.Second {
			t.Fatal(got)
		}
		if got := ConnectPause(100); got < time.Second || got >= 2*time.Second {
			t.Fatal(got)
		}
	}
	for _, d := range []time.Duration{0, 1} {
		if got := Jitter(d); got != d {
			t.Errorf("%v of %v", got, d)
		}
	}
}

func TestRetry(t *testing.T) {
	down, wrong := errors.New("down"), errors.New("wrong")
	for name, c := range map[string]struct {
		timeout  time.Duration
		try      func(passed time.Duration) error
		want     error
		failures int // at least, with the shortest pauses and with the longest ones
		longest  time.Duration
	}{
		"success":          {time.Minute, func(time.Duration) error { return nil }, nil, 0, 0},
		"one attempt":      {0, func(time.Duration) error { return down }, down, 0, 0},
		"hopeless":         {time.Minute, func(time.Duration) error { return wrong }, wrong, 0, 0},
		"timeout":          {10 * time.Second, func(time.Duration) error { return down }, down, 8, 10 * time.Second},
		"success later on": {time.Minute, func(p time.Duration) error { return map[bool]error{true: down}[p < 5*time.Second] }, nil, 5, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, attempts, failures := time.Now(), 0, 0
				r := Retry{
					Timeout:  c.timeout,
					Hopeless: func(err error) bool { return errors.Is(err, wrong) },
					Failed:   func(err error) { failures++ },
				}
				err := r.Do(t.Context(), func(context.Context) error {
					attempts++
					return c.try(time.Since(start))
				})
				if took := time.Since(start); !errors.Is(err, c.want) || took > c.longest || failures < c.failures || attempts != failures+1 {
					t.Errorf("%v after %v, %d attempts, %d failures", err, took, attempts, failures)
				}
			})
		})
	}
}

// TestRetryEndsWithContext: the error is why the engine could not connect, not that the caller gave up.
func TestRetryEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		r := Retry{Timeout: time.Hour, Failed: func(error) {}}
		if err := r.Do(ctx, func(context.Context) error { return down }); !errors.Is(err, down) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !Sleep(ctx, time.Second) || !Sleep(ctx, -1) {
			t.Error("did not sleep")
		}
		if Sleep(ctx, time.Hour) || Sleep(ctx, 0) {
			t.Error("slept longer than its context")
		}
	})
}
