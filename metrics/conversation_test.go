package metrics_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/metrics"
)

var update = flag.Bool("update", false, "write testdata/conversation.txt")

// exposition is the text that Prometheus gets, without the lines of help.
func exposition(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	var b bytes.Buffer
	for _, f := range gather(t, m) {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return regexp.MustCompile("(?m)^# HELP .*\n").ReplaceAllString(b.String(), "")
}

func newNode(t *testing.T, m *metrics.Metrics) *gyro.Node {
	t.Helper()
	kept := gyro.PublishOptions{HistorySize: 10, HistoryTTL: time.Hour}
	node, err := gyro.New(gyro.Config{
		Observer: m.Observer(),
		Logger:   slog.New(slog.DiscardHandler),
		// The first check of a channel would fall on a random moment, however long the delay is.
		PositionCheckDelay: -1,
		Handlers: gyro.Handlers{
			Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}}, nil
			},
			Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				if e.Channel != "room" {
					return gyro.SubscribeReply{}, gyro.ErrorPermissionDenied
				}
				return gyro.SubscribeReply{Options: gyro.SubscribeOptions{
					Presence: true, EmitJoinLeave: true, PushJoinLeave: true, Recoverable: true, AllowTagsFilter: true,
				}}, nil
			},
			Message: func(context.Context, *gyro.Client, []byte) error { return nil },
			Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
				return gyro.PublishReply{Options: kept}, nil
			},
			Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
				return gyro.PresenceReply{}, nil
			},
			History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
				return gyro.HistoryReply{}, nil
			},
		},
	})
	if err == nil {
		err = node.Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Shutdown(context.Background()) })
	return node
}

// TestConversation compares what a conversation adds up to with testdata/conversation.txt. Time is
// virtual, so what is not waited for takes none; each loop tells of its own deliveries, so there is one.
func TestConversation(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Config{RecoveredPublications: true, Version: "v1"})
		node := newNode(t, m)
		m.Watch(node)
		converse(t, node)
		begin := time.Now()
		if _, err := node.Cluster().Channels(t.Context(), ""); err != nil {
			t.Error(err)
		}
		m.Survey("channels", time.Since(begin))
		synctest.Wait()
		got := exposition(t, m)
		if *update {
			if err := os.WriteFile("testdata/conversation.txt", []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile("testdata/conversation.txt")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func converse(t *testing.T, node *gyro.Node) {
	ann, bob := wstest.Pipe(t, node), wstest.Pipe(t, node)
	ann.Connect(`"token":"ann","name":"js","version":"5.8.0"`)
	position := ann.Subscribe("room", "")
	synctest.Wait() // until all pushes have come, here and below
	bob.Connect(`"token":"bob"`)
	bob.Subscribe("room", `"tf":{"key":"kind","cmp":"eq","val":"note"}`)
	synctest.Wait()
	ann.Do(`"publish":{"channel":"room","data":{"text":"one"}}`)
	ann.Do(`"publish":{"channel":"room","data":{"text":"two"}}`)
	ann.Do(`"presence":{"channel":"room"}`)
	ann.Do(`"history":{"channel":"room","limit":1}`)
	ann.Send(`{"send":{"data":{}}}`)
	for range 2 {
		ann.Outcome(`"rpc":{"method":"x","data":{}}`)
	}
	ann.Outcome(`"subscribe":{"channel":"cellar"}`)
	synctest.Wait()
	time.Sleep(time.Minute) // two pings

	bob.Vanish()
	synctest.Wait()
	back := wstest.Pipe(t, node)
	back.Connect(`"token":"bob"`)
	back.Subscribe("room", `"recover":true,"epoch":"`+position.Epoch+`"`)
	synctest.Wait()
	back.Do(`"unsubscribe":{"channel":"room"}`)
	synctest.Wait()
	back.Subscribe("room", `"recover":true,"epoch":"lost"`)
	synctest.Wait()
	if err := node.Users().Unsubscribe(t.Context(), gyro.Target{User: "bob"}, "room", nil); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	if err := node.Users().Disconnect(t.Context(), gyro.Target{User: "ann"}, nil); err != nil {
		t.Error(err)
	}
	if d := ann.Disconnected(); d.Code != 3503 {
		t.Errorf("%+v", d)
	}
}
