package observation

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// stuckLog is a handler that takes nothing until it is closed.
type stuckLog chan struct{}

func (stuckLog) Enabled(context.Context, slog.Level) bool    { return true }
func (s stuckLog) Handle(context.Context, slog.Record) error { <-s; return nil }
func (s stuckLog) WithAttrs([]slog.Attr) slog.Handler        { return s }
func (s stuckLog) WithGroup(string) slog.Handler             { return s }

// A log that takes nothing holds up neither the clients whose handlers fail on the
// loop, nor the others, nor the shutdown.
func TestStuckLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(stuckLog)
		node := nodetest.Run(t, gyro.Config{Logger: slog.New(stuck), InlineHandlers: true, Handlers: gyro.Handlers{
			Connecting: nodetest.As,
			Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				if e.Channel == "bad" {
					return gyro.SubscribeReply{}, errors.New("failure of the test")
				}
				return gyro.SubscribeReply{}, nil
			},
		}})
		for range 4 {
			attacker := nodetest.Connect(t, node, "attacker")
			for range 100 {
				r := attacker.Await(attacker.Start(`"subscribe":{"channel":"bad"}`))
				if r.Error == nil || r.Error.Code != protocol.ErrorInternal.Code {
					t.Fatalf("got %+v", r)
				}
			}
			nodetest.Connect(t, node, "victim").Subscribe("good", "")
		}
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		close(stuck)
	})
}

// A client that is too slow leaves a line that names it, and the limit.
func TestSlowClientIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		node := nodetest.Run(t, gyro.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), QueueMaxSize: 1000, Handlers: nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{}),
		})
		c := wstest.Pipe(t, node)
		id := c.Connect(`"token":"u"`).Client
		c.Subscribe("a", "")
		c.Stall(true)
		for range 20 {
			if _, err := node.Publish(t.Context(), "a", []byte(`"`+strings.Repeat("x", 100)+`"`), nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if text := log.String(); strings.Count(text, "Config.QueueMaxSize") != 1 || !strings.Contains(text, "client="+id) || !strings.Contains(text, "user=u") {
			t.Errorf("the log says:\n%s", text)
		}
	})
}
