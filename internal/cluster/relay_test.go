package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
)

func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		a, b := join(t, bus, "a"), join(t, bus, "b")
		synctest.Wait()
		var got string
		b.dispatch = func(session, data string) <-chan struct{} {
			got = session + " " + data
			return dispatched()
		}
		if err := a.Relay(t.Context(), "b", "s", []byte("data")); err != nil || got != "s data" {
			t.Errorf("%v, b got %q", err, got)
		}
		for _, to := range []string{"", "nobody"} {
			if err := a.Relay(t.Context(), to, "s", nil); !errors.Is(err, ErrUnknownNode) {
				t.Errorf("%q: %v", to, err)
			}
		}
		b.dispatch = func(string, string) <-chan struct{} { return nil } // its loop hangs
		if err := a.Relay(t.Context(), "b", "secret", nil); err == nil || !strings.Contains(err.Error(), "deadline") || strings.Contains(err.Error(), "secret") {
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
		b.dispatch = func(string, string) <-chan struct{} { t.Error("called"); return dispatched() }
		if answers, err := a.Survey(t.Context(), opEmulation, []byte{0xff}, "b"); err != nil || answers["b"].Code != CodeInvalid {
			t.Errorf("%v, %v", answers, err)
		}
	})
}

// TestRelayInOrder: commands that come together, as after a pause of the node, are dispatched in the
// order in which they were sent.
func TestRelayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		b := join(t, bus, "b")
		synctest.Wait()
		var got, want []string
		b.dispatch = func(_, data string) <-chan struct{} {
			got = append(got, data)
			return dispatched()
		}
		for i := range 100 {
			data := fmt.Appendf(nil, "command %d", i)
			want = append(want, string(data))
			req := &control.SurveyRequest{ID: uint64(i), Op: opEmulation, Data: (&control.Emulation{Session: "s", Data: data}).AppendProto(nil)}
			b.receive((&control.Command{UID: "a", SurveyRequest: req}).AppendProto(nil))
		}
		synctest.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("dispatched in the order %q", got)
		}
	})
}

// However many commands clients send, a node passes on, and serves, so many at a time.
// Surveys go on beside them.
func TestRelayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		b := join(t, bus, "b")
		var busy atomic.Int32
		b.dispatch = func(string, string) <-chan struct{} {
			busy.Add(1)
			return nil // until the caller gives up
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
		if n := busy.Load(); n != maxRelayingTo {
			t.Errorf("%d of one node at a time", n)
		}
		others := maxEmulating/maxRelayingTo + 2
		for i := range others {
			n := join(t, bus, fmt.Sprint("other", i))
			n.dispatch = func(string, string) <-chan struct{} { return dispatched() }
			synctest.Wait()
			if err := a.Relay(t.Context(), n.uid, "s", nil); err != nil {
				t.Errorf("while b is slow, to another node: %v", err)
			}
			for range maxRelayingTo {
				go emulate(n)
			}
		}
		synctest.Wait()
		if n := busy.Load(); n != maxEmulating {
			t.Errorf("%d at a time", n)
		}
		if answers, err := a.Survey(t.Context(), "op", nil, "b"); err != nil || len(answers) != 1 {
			t.Errorf("a survey: %v, %v", answers, err)
		}
		time.Sleep(2 * time.Second)
		if n, want := errs.Load(), int32(2*maxRelaying+others*maxRelayingTo); n != want {
			t.Errorf("%d of %d failed", n, want)
		}
	})
}
