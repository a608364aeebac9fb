package observe_test

import (
	"context"
	"log"
	"log/slog"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/observe"
)

// tracer stands for one of OpenTelemetry, say.
type tracer struct{ log *slog.Logger }

type spanKey struct{}

// effect is a span from the begin of an effect to its end. What the handler does under ctx
// belongs to it.
func (t *tracer) effect(ctx context.Context, e observe.Effect) (context.Context, func(error)) {
	begin := time.Now()
	return context.WithValue(ctx, spanKey{}, e.Name), func(err error) {
		t.log.Info(e.Name, "channel", e.Channel, "client", e.Client.ID(), "took", time.Since(begin), "error", err)
	}
}

// turn logs commands that failed.
func (t *tracer) turn(turn *observe.Turn) {
	for _, c := range turn.Commands {
		if c.Code != 0 {
			t.log.Info("failed", "method", c.Method, "code", c.Code, "took", c.Took)
		}
	}
}

// A node whose effects become spans, and whose failed commands are logged.
func ExampleObserver() {
	t := &tracer{slog.Default()}
	node, err := gyro.New(gyro.Config{
		Observer: observe.Observer{Turn: t.turn, Effect: t.effect},
		Handlers: gyro.Handlers{
			RPC: func(ctx context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
				slog.InfoContext(ctx, "called", "method", e.Method, "span", ctx.Value(spanKey{}))
				return nil, nil
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(); err != nil {
		log.Fatal(err)
	}
}
