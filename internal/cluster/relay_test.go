package cluster

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/bustest"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		synctest.Wait()
		var got string
		b.emulate = func(_ context.Context, session string, data []byte) error {
			got = session + " " + string(data)
			return nil
		}
		if err := a.Relay(t.Context(), "b", "s", []byte("data")); err != nil || got != "s data" {
			t.Errorf("%v, b got %q", err, got)
		}
		for _, to := range []string{"", "nobody"} {
			if err := a.Relay(t.Context(), to, "s", nil); !errors.Is(err, ErrUnknownNode) {
				t.Errorf("%q: %v", to, err)
			}
		}
		b.emulate = func(context.Context, string, []byte) error { return errors.New("boom") }
		if err := a.Relay(t.Context(), "b", "secret", nil); err == nil || !strings.Contains(err.Error(), "boom") || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
		b.engine.Cut(true)
		start := time.Now()
		if err := a.Relay(t.Context(), "b", "s", nil); !errors.Is(err, ErrNoAnswer) || time.Since(start) > Timeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// A node of an older version answers that it does not know the survey; what is no
// Emulation is not handed on.
func TestRelayIsNotUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		old := bus.Engine()
		err := old.RunControl("old", func(data []byte) {
			var cmd control.Command
			if err := cmd.UnmarshalProto(data); err != nil || cmd.SurveyRequest == nil {
				return
			}
			answer := &control.SurveyResponse{ID: cmd.SurveyRequest.ID, Code: CodeUnknownOp}
			bus.Inject(cmd.UID, (&control.Command{UID: "old", SurveyResponse: answer}).AppendProto(nil))
		})
		if err != nil {
			t.Fatal(err)
		}
		bus.Inject("", (&control.Command{UID: "old", Node: &control.Node{}}).AppendProto(nil))
		synctest.Wait()
		if err := a.Relay(t.Context(), "old", "s", nil); err == nil || !strings.Contains(err.Error(), "node old: code 3") {
			t.Error(err)
		}
		b.emulate = func(context.Context, string, []byte) error { t.Error("called"); return nil }
		if answers, err := a.Survey(t.Context(), opEmulation, []byte{0xff}, "b"); err != nil || answers["b"].Code != CodeInvalid {
			t.Errorf("%v, %v", answers, err)
		}
	})
}

// However many commands clients send, a node passes on, and serves, so many at a time.
// Surveys go on beside them.
func TestRelayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		b := join(t, bus, "b")
		var busy, most atomic.Int32
		b.emulate = func(ctx context.Context, _ string, _ []byte) error {
			if n := busy.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer busy.Add(-1)
			<-ctx.Done()
			return nil
		}
		echo(b)
		var errs atomic.Int32
		emulate := func(n *node) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if n.Relay(ctx, "b", "s", nil) != nil {
				errs.Add(1)
			}
		}
		a := join(t, bus, "a")
		synctest.Wait()
		for range 2 * maxRelaying {
			go emulate(a)
		}
		synctest.Wait()
		if n := busy.Load(); n != maxRelaying {
			t.Errorf("%d of one node at a time", n)
		}
		for _, uid := range []string{"c", "d", "e", "f", "g"} {
			n := join(t, bus, uid)
			synctest.Wait()
			for range maxRelaying {
				go emulate(n)
			}
		}
		synctest.Wait()
		if n := most.Load(); n != maxEmulating {
			t.Errorf("%d at a time", n)
		}
		if answers, err := a.Survey(t.Context(), "op", nil, "b"); err != nil || len(answers) != 1 {
			t.Errorf("a survey: %v, %v", answers, err)
		}
		time.Sleep(2 * time.Second)
		if n, want := errs.Load(), int32(7*maxRelaying); n != want {
			t.Errorf("%d of %d failed", n, want)
		}
	})
}
