package sendqueue_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/sendqueue"
)

// taker takes a number of bytes.
type taker int

func (n *taker) Write(frames [][]byte) (taken int, err error) {
	for _, f := range frames {
		taken += len(f)
	}
	taken = min(taken, int(*n))
	return taken, nil
}

// What waits is known, and since when: exactly, unless bytes come more often than there are marks; then it is
// said to have waited for longer, but never longer than the oldest byte that was not taken by then.
func TestWaiting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var (
			pool  sendqueue.Pool
			q     sendqueue.Queue
			times []int64 // of each byte that waits
			exact = true
		)
		for range 60 {
			pool.Now += int64(r.IntN(3)) * int64(time.Second)
			if r.IntN(3) > 0 {
				size := 1 + r.IntN(20)
				q.Push(&pool, bytes.Clone(make([]byte, size)))
				for range size {
					times = append(times, pool.Now)
				}
			}
			n := taker(r.IntN(18))
			if r.IntN(20) == 0 {
				n = 1000
			}
			if err := q.Flush(&pool, &n); err != nil {
				t.Fatal(err)
			}
			times = times[min(int(n), len(times)):]
			distinct := 0
			for i := range times {
				if i == 0 || times[i] != times[i-1] {
					distinct++
				}
			}
			if len(times) == 0 {
				exact = true
			} else if distinct >= 16 {
				exact = false
			}
			want := sendqueue.Waiting{}
			if len(times) > 0 {
				want = sendqueue.Waiting{Queues: 1, Bytes: len(times), Largest: len(times), Oldest: time.Duration(pool.Now - times[0])}
			}
			got := pool.Waiting()
			if !exact && got.Oldest > want.Oldest {
				want.Oldest = got.Oldest
			}
			if got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		}
		q.Drop(&pool)
		if got := pool.Waiting(); got != (sendqueue.Waiting{}) {
			t.Fatalf("left: %+v", got)
		}
	}
}

// Several queues add up.
func TestWaitingAdds(t *testing.T) {
	var pool sendqueue.Pool
	queues := make([]sendqueue.Queue, 3)
	none := taker(0)
	for i := range queues {
		pool.Now += int64(time.Second)
		queues[i].Push(&pool, make([]byte, 10*(i+1)))
		if err := queues[i].Flush(&pool, &none); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := pool.Waiting(), (sendqueue.Waiting{Queues: 3, Bytes: 60, Largest: 30, Oldest: 2 * time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	queues[0].Take(&pool)
	if got := pool.Waiting().Queues; got != 2 {
		t.Errorf("%d queues", got)
	}
}
