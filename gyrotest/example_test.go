package gyrotest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
)

// config is that of the program: everybody may read the news, and editors write them.
func config() gyro.Config {
	return gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			if e.Token == "" {
				return gyro.ConnectReply{}, gyro.DisconnectInvalidToken
			}
			return gyro.ConnectReply{Credentials: &gyro.Credentials{
				UserID: e.Token, ExpireAt: time.Now().Add(time.Hour), // the program checks the token
			}}, nil
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{}, nil
		},
		Publish: func(_ context.Context, c *gyro.Client, _ gyro.PublishEvent) (gyro.PublishReply, error) {
			if c.UserID() != "editor" {
				return gyro.PublishReply{}, gyro.ErrorPermissionDenied
			}
			return gyro.PublishReply{}, nil
		},
		Refresh: func(context.Context, *gyro.Client, gyro.RefreshEvent) (gyro.RefreshReply, error) {
			return gyro.RefreshReply{Expired: true}, nil
		},
	}}
}

// testNews is a test over WebSocket; in a program it is TestNews.
func testNews(t *testing.T) {
	server := gyrotest.NewServer(t, config())
	editor, reader := gyrotest.Dial(t, server.URL, nil), gyrotest.Dial(t, server.URL, nil)
	editor.Connect(&protocol.ConnectRequest{Token: "editor"})
	reader.Connect(&protocol.ConnectRequest{Token: "ann"})
	reader.Subscribe("news", nil)

	editor.Publish("news", `{"text":"Lunch is ready"}`)
	if p := reader.Publication("news"); string(p.Data) != `{"text":"Lunch is ready"}` || p.Info.User != "editor" {
		t.Errorf("got %s of %+v", p.Data, p.Info)
	}

	// What has to fail is tried.
	news := &protocol.Command{Publish: &protocol.PublishRequest{Channel: "news", Data: []byte(`{}`)}}
	if _, err := reader.Try(news); !errors.Is(err, gyro.ErrorPermissionDenied) {
		t.Errorf("a reader publishes: %v", err)
	}
	nobody := gyrotest.Dial(t, server.URL, nil)
	if _, err := nobody.Try(&protocol.Command{Connect: new(protocol.ConnectRequest)}); !errors.Is(err, gyro.DisconnectInvalidToken) {
		t.Errorf("without a token: %v", err)
	}
}

// testExpiry is a test in virtual time: connections are in memory, and an hour is over at once.
func testExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := gyrotest.NewNode(t, config())
		ann := gyrotest.Open(t, node, &gyrotest.Options{Timeout: 2 * time.Hour})
		ann.Connect(&protocol.ConnectRequest{Token: "ann"})
		connected := time.Now()
		if d := ann.Disconnected(); d != protocol.DisconnectExpired || time.Since(connected) < time.Hour {
			t.Errorf("%v after %v", d, time.Since(connected))
		}
	})
}

// These are tests of a program that uses the library.
func Example() {
	var t *testing.T // from go test
	testNews(t)
	testExpiry(t)
}
