package flightrecorder

import (
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/inspect"
)

// Watch returns a function that records the parts of a node that stop working or work again, for one goroutine at a
// time. It returns nil if r is nil.
func (r *Ring) Watch(health func() []broker.Health) func() {
	if r == nil {
		return nil
	}
	before := make(map[string]broker.Health)
	return func() {
		for _, now := range health() {
			was, known := before[now.Part]
			before[now.Part] = now
			e := Record{Kind: inspect.Working, What: now.Part, Count: int(now.Reconnects)}
			switch {
			case now.Err != nil && was.Err == nil:
				e.Kind, e.Text = inspect.Failing, now.Err.Error()
			case now.Err == nil && was.Err != nil:
			case known && now.Reconnects != was.Reconnects:
				e.Text = "it has reconnected"
			default:
				continue
			}
			r.Add(time.Now().UnixNano(), &e)
		}
	}
}

// Lost records that events of the broker may be lost.
func (r *Ring) Lost() { r.Add(time.Now().UnixNano(), &Record{Kind: inspect.Lost}) }
