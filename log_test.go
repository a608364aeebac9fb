package gyro_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
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
		node := run(t, gyro.Config{Logger: slog.New(stuck), InlineHandlers: true, Handlers: gyro.Handlers{
			Connecting: as,
			Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				if e.Channel == "bad" {
					return gyro.SubscribeReply{}, errors.New("failure of the test")
				}
				return gyro.SubscribeReply{}, nil
			},
		}})
		for range 4 {
			attacker := connect(t, node, "attacker")
			for range 100 {
				r := attacker.Await(attacker.Start(`"subscribe":{"channel":"bad"}`))
				if r.Error == nil || r.Error.Code != protocol.ErrorInternal.Code {
					t.Fatalf("got %+v", r)
				}
			}
			connect(t, node, "victim").Subscribe("good", "")
		}
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		close(stuck)
	})
}
