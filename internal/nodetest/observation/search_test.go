package observation

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

// TestSlowSearch: a node looks at the time after each connection that it evaluates an expression for, and evaluates
// one expression at a time, whatever comes together.
func TestSlowSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, looks atomic.Int32
		slow := func(string) (inspect.Condition, error) {
			return func(context.Context, *inspect.Connection) (bool, error) {
				if busy.Add(1) > 1 {
					t.Error("two expressions at a time")
				}
				defer busy.Add(-1)
				looks.Add(1)
				time.Sleep(900 * time.Millisecond)
				return true, nil
			}, nil
		}
		n := nodetest.Run(t, gyro.Config{Handlers: nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}), Expressions: slow})
		for i := range 20 {
			wstest.Pipe(t, n).Connect(fmt.Sprintf(`"token":"u%d"`, i))
		}
		const atOnce = 3
		answers := make(chan inspect.Connections, atOnce)
		for range atOnce {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := n.Inspect().Connections(ctx, inspect.Filter{Expression: "any"})
				if err != nil {
					t.Error(err)
				}
				answers <- got
			}()
		}
		for range atOnce {
			// At 3.6 s the time is not over, at 4.5 s it is.
			if got := <-answers; len(got.List) != 5 || !got.More || !strings.Contains(got.Failed, "4s") {
				t.Errorf("%d connections, more: %v, %q", len(got.List), got.More, got.Failed)
			}
		}
		if n := looks.Load(); n != 5*atOnce {
			t.Errorf("%d connections were looked at", n)
		}
	})
}
