package proxies

import (
	"context"
	"fmt"
	"testing"

	"github.com/centrifugal/centrifuge-go"
)

func TestStreams(t *testing.T) {
	b := backend{
		config:  "config.json",
		command: func(string) []string { return []string{python, "backend.py"} },
		at:      func(port, _ string) string { return "grpc://localhost:" + port },
		proxies: map[string]string{"CHANNEL_PROXY_SUBSCRIBE_STREAM": "subscribe_stream"},
	}
	folder := install(t, streams)
	for _, encoding := range []string{"JSON", "Protobuf"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			s := setup{T: t, backend: b, protobuf: encoding == "Protobuf"}
			s.start(folder)
			c := s.connect("ann")

			unknown := s.subscribe(c, "countdown:x")
			s.equal("countdown:x", take(s, "unsubscribed", unknown.unsubscribed), centrifuge.UnsubscribedEvent{Code: 404, Reason: "no such countdown"})

			countdown := s.subscribe(c, "countdown:3")
			for n := 3; n > 0; n-- {
				s.json("countdown:3", take(s, "publication", countdown.publications).Data, fmt.Sprintf(`{"launchin":%d}`, n))
			}
			s.equal("countdown:3", take(s, "unsubscribed", countdown.unsubscribed).Code, uint32(2000))

			echo := s.subscribe(c, "echo:a")
			take(s, "subscribed", echo.subscribed)
			for times := 1; times <= 2; times++ {
				_, err := echo.Publish(s.Context(), []byte(`["hello"]`))
				s.must(err)
				s.json("echo:a", take(s, "publication", echo.publications).Data, fmt.Sprintf(`{"said":["hello"],"times":%d}`, times))
			}
			s.must(echo.Unsubscribe())
			ctx, cancel := context.WithTimeout(s.Context(), patience)
			defer cancel()
			s.must(s.program.Await(ctx, "closed after 2", 1))
		})
	}
}
