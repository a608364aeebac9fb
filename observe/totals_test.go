package observe_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/observe"
)

// Nothing that goroutines add at the same time is lost. Without Totals nothing happens.
func TestTotals(t *testing.T) {
	var (
		totals observe.Totals
		none   *observe.Totals
		wg     sync.WaitGroup
	)
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				for _, t := range []*observe.Totals{&totals, none} {
					t.AddSent(observe.EventJoin, "", 2)
					t.AddSent(observe.EventJoin, "chat", 2)
					t.AddReceived(observe.EventControl, "")
					t.AddAction(observe.ActionSurvey, "", 3)
					t.AddSuppressed(observe.Suppressed{Reason: channel.SuppressVersion, Namespace: "chat"})
					t.AddClose(observe.Close{Transport: "websocket", Code: 3001})
				}
			}
		})
	}
	wg.Wait()
	closes := totals.Closes()
	for what, got := range map[string]uint64{
		"sent": totals.Sent(observe.EventJoin, "") / 2, "received": totals.Received(observe.EventControl, ""),
		"sent in chat": totals.Sent(observe.EventJoin, "chat") / 2,
		"suppressed":   totals.Suppressed()[observe.Suppressed{Reason: channel.SuppressVersion, Namespace: "chat"}],
		"actions":      totals.Actions(observe.ActionSurvey, "") / 3, "closes": closes[observe.Close{Transport: "websocket", Code: 3001}],
	} {
		if got != 8000 {
			t.Errorf("%s: %d", what, got)
		}
	}
	if totals.Sent(observe.EventLeave, "")+totals.Received(observe.EventJoin, "")+totals.Actions(observe.ActionHistory, "x") != 0 || len(closes) != 1 {
		t.Error("something was added elsewhere")
	}
	if got := totals.Namespaces(); !slices.Equal(got, []string{"", "chat"}) {
		t.Errorf("namespaces %q", got)
	}
}

// Each name is there once.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	name := func(kind, s string) {
		if s == "" || seen[kind+s] {
			t.Errorf("%s: %q", kind, s)
		}
		seen[kind+s] = true
	}
	for m := range observe.NumMessages {
		name("message ", m.String())
	}
	for e := range observe.NumEvents {
		name("event ", e.String())
	}
	for a := range observe.NumActions {
		name("action ", a.String())
	}
	for l := range observe.NumLimits {
		name("limit ", l.String())
	}
	o := observe.Observer{ClientNames: []string{"js", "go"}}
	for _, n := range []string{"", "js", "go", "other"} {
		for _, version := range []string{"", "1"} {
			a := o.NewAgent(n, version, nil)
			name("agent ", a.Name(o.ClientNames)+" "+a.Version())
		}
	}
}
