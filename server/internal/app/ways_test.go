package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/grpctest"
	"github.com/gyrohq/gyro/server/internal/web"
)

// way is a way into the server API.
type way struct {
	name string
	// lacks names the requests of publishOptions that cannot be written this way.
	lacks []string
	// call executes a request, written as JSON, and returns the answer as the HTTP API writes it; "" if it has
	// none, as the request waits in a queue.
	call func(s *testServer, m api.Method, request string) (answer string)
	// done, unless it is nil, waits until all requests have been executed.
	done func(s *testServer)
}

var answering = []way{
	{name: "http", call: func(s *testServer, m api.Method, request string) string {
		status, answer := s.post("/api/"+m.String(), request)
		if status != http.StatusOK {
			s.t.Fatalf("%s %s: %d %s", m, request, status, answer)
		}
		return answer
	}},
	{name: "http legacy endpoint", lacks: []string{"batch"}, call: func(s *testServer, m api.Method, request string) string {
		status, answer := s.post("/api", `{"method":"`+m.String()+`","params":`+request+`}`)
		if status != http.StatusOK {
			s.t.Fatalf("%s %s: %d %s", m, request, status, answer)
		}
		return answer
	}},
	{name: "grpc", call: func(s *testServer, m api.Method, request string) string {
		conn := dialGRPC(s, web.GRPCAPI, nil)
		defer conn.Close()
		answer, err := grpctest.Call(keyed(s), conn, m, request)
		if err != nil {
			s.t.Fatalf("%s %s: %v", m, request, err)
		}
		return answer
	}},
}

// keyed is the context of calls with the key of the gRPC API.
func keyed(s *testServer) context.Context {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.t.Context(), "authorization", "apikey "+apiKey), wait.Limit)
	s.t.Cleanup(cancel)
	return ctx
}

// withGRPC turns the gRPC API on.
func withGRPC(cfg *config.Config) {
	cfg.GRPCAPI.Enabled, cfg.GRPCAPI.Address, cfg.GRPCAPI.Port, cfg.GRPCAPI.Key = true, "127.0.0.1", 0, apiKey
}

// publishOptions are requests with each option of publishing, in their order, with the answers; then what a
// subscriber of the channel ns:a has got, and what the history keeps. E is the epoch of the stream, which the
// first answer names.
var publishOptions = []struct {
	name  string
	steps []step
	// live are the publications that a subscriber gets, kept those of the history.
	live, kept string
}{
	{"plain", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":{"n": 1}}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":"two"}`, `{"result":{"offset":2,"epoch":"E"}}`},
	}, `1 {"n": 1}; 2 "two"`, `1 {"n": 1}; 2 "two"`},
	{"b64data", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":1,"b64data":"eyJiIjoyfQ=="}`, `{"result":{"offset":1,"epoch":"E"}}`},
	}, `1 {"b":2}`, `1 {"b":2}`},
	{"b64data that is none", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":1,"b64data":"no base64"}`, `{"error":{"code":107,"message":"bad request"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":2}`, `{"result":{"offset":1,"epoch":"E"}}`},
	}, `1 2`, `1 2`},
	{"tags", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":1,"tags":{"lang":"en"}}`, `{"result":{"offset":1,"epoch":"E"}}`},
	}, `1 1 map[lang:en]`, `1 1 map[lang:en]`},
	{"skip_history", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":1,"skip_history":true}`, `{"result":{}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":2}`, `{"result":{"offset":1,"epoch":"E"}}`},
	}, `0 1; 1 2`, `1 2`},
	{"idempotency_key", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":1,"idempotency_key":"k"}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":2,"idempotency_key":"l"}`, `{"result":{"offset":2,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":3,"idempotency_key":"k"}`, `{"result":{"offset":1,"epoch":"E"}}`},
	}, `1 1; 2 2`, `1 1; 2 2`},
	{"version", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":1,"version":5}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":2,"version":5}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":3,"version":4}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":4,"version":6}`, `{"result":{"offset":2,"epoch":"E"}}`},
	}, `1 1; 2 4`, `1 1; 2 4`},
	{"version_epoch", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":1,"version":5,"version_epoch":"a"}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":2,"version":4,"version_epoch":"a"}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":3,"version":1,"version_epoch":"b"}`, `{"result":{"offset":2,"epoch":"E"}}`},
	}, `1 1; 2 3`, `1 1; 2 3`},
	{"delta", []step{
		{api.MethodPublish, `{"channel":"ns:a","data":"` + long + `1","delta":true}`, `{"result":{"offset":1,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":"` + long + `2","delta":true}`, `{"result":{"offset":2,"epoch":"E"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":"` + long + `3"}`, `{"result":{"offset":3,"epoch":"E"}}`},
	}, `1 "` + long + `1"; 2 patch; 3 "` + long + `3"`, `1 "` + long + `1"; 2 "` + long + `2"; 3 "` + long + `3"`},
	{"broadcast", []step{
		{api.MethodBroadcast, `{"channels":["ns:a","no:a","ns:a"],"data":1,"tags":{"a":"b"}}`,
			`{"result":{"responses":[{"result":{"offset":1,"epoch":"E"}},{"error":{"code":102,"message":"unknown channel"}},{"result":{"offset":2,"epoch":"E"}}]}}`},
		{api.MethodBroadcast, `{"channels":["ns:a"],"b64data":"Mg==","idempotency_key":"k","version":2}`, `{"result":{"responses":[{"result":{"offset":3,"epoch":"E"}}]}}`},
		{api.MethodBroadcast, `{"channels":["ns:a"],"data":3,"idempotency_key":"k"}`, `{"result":{"responses":[{"result":{"offset":3,"epoch":"E"}}]}}`},
		{api.MethodBroadcast, `{"channels":["ns:a"],"data":4,"version":1}`, `{"result":{"responses":[{"result":{"offset":3,"epoch":"E"}}]}}`},
	}, `1 1 map[a:b]; 2 1 map[a:b]; 3 2`, `1 1 map[a:b]; 2 1 map[a:b]; 3 2`},
	{"batch", []step{
		{api.MethodBatch, `{"commands":[{"publish":{"channel":"ns:a","data":1,"idempotency_key":"k"}},{"publish":{"channel":"no:a","data":1}},` +
			`{"publish":{"channel":"ns:a","data":2,"idempotency_key":"k"}},{"broadcast":{"channels":["ns:a"],"data":3,"tags":{"a":"b"}}}]}`,
			`{"replies":[{"publish":{"offset":1,"epoch":"E"}},{"error":{"code":102,"message":"unknown channel"}},` +
				`{"publish":{"offset":1,"epoch":"E"}},{"broadcast":{"responses":[{"result":{"offset":2,"epoch":"E"}}]}}]}`},
	}, `1 1; 2 3 map[a:b]`, `1 1; 2 3 map[a:b]`},
	{"refused", []step{
		{api.MethodPublish, `{"channel":"ns:a"}`, `{"error":{"code":107,"message":"bad request"}}`},
		{api.MethodPublish, `{"data":1}`, `{"error":{"code":107,"message":"bad request"}}`},
		{api.MethodPublish, `{"channel":"no:a","data":1}`, `{"error":{"code":102,"message":"unknown channel"}}`},
		{api.MethodPublish, `{"channel":"json:a","b64data":"AP8="}`, `{"error":{"code":107,"message":"bad request"}}`},
		{api.MethodPublish, `{"channel":"ns:a","data":1}`, `{"result":{"offset":1,"epoch":"E"}}`},
	}, `1 1`, `1 1`},
}

// step is a request and its answer.
type step struct {
	method        api.Method
	request, want string
}

var long = strings.Repeat("a text that does not change, ", 10)

var epochs = regexp.MustCompile(`"epoch":"[^"]+"`)

// TestPublishOptions: each option means the same by whichever way a publication comes.
func TestPublishOptions(t *testing.T) {
	t.Parallel()
	queued, consumers := queueWays(t)
	s := startServer(t, func(cfg *config.Config) {
		withGRPC(cfg)
		cfg.Prometheus.Enabled, cfg.Consumers = true, consumers
		addNamespace(cfg, "json", func(o *config.ChannelOptions) { o.PublicationDataFormat = "json" })
		addNamespace(cfg, "ns", func(o *config.ChannelOptions) {
			o.AllowSubscribeForClient, o.ForceRecovery, o.AllowedDeltaTypes = true, true, []string{"fossil"}
			historyOn(o)
		})
	})
	s.expected = "it is not tried again" // consumers log what is refused
	for _, w := range append(queued, answering...) {
		for n, tt := range publishOptions {
			if slices.Contains(w.lacks, tt.name) {
				continue
			}
			t.Run(w.name+"/"+tt.name, func(t *testing.T) {
				ch := fmt.Sprintf("ns:%d %s", n, w.name)
				c := s.connect("u")
				c.Subscribe(ch, `"delta":"fossil"`)
				for _, step := range tt.steps {
					request := strings.ReplaceAll(step.request, "ns:a", ch)
					got := epochs.ReplaceAllString(w.call(s, step.method, request), `"epoch":"E"`)
					if got != step.want && w.done == nil {
						t.Errorf("%s %s: %s, want %s", step.method, request, got, step.want)
					}
				}
				if w.done != nil {
					w.done(s)
				}
				s.api("publish", `{"channel":"`+ch+`","data":"end","skip_history":true}`)
				var live, kept []string
				for p := c.Pub(); ; p = c.Pub() {
					var data string // with delta compression, data is in a string
					if err := json.Unmarshal(p.Data, &data); err != nil {
						t.Fatal(err)
					}
					if data == `"end"` {
						break
					}
					live = append(live, show(p.Offset, data, p.Tags, p.Delta))
				}
				history, err := s.app.Node().History(t.Context(), ch, allOfIt)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range history.Publications {
					kept = append(kept, show(p.Offset, string(p.Data), p.Tags, false))
				}
				if got := strings.Join(live, "; "); got != tt.live {
					t.Errorf("the subscriber gets %s, want %s", got, tt.live)
				}
				if got := strings.Join(kept, "; "); got != tt.kept {
					t.Errorf("the history keeps %s, want %s", got, tt.kept)
				}
			})
		}
	}
}

// allOfIt asks for the whole history of a channel.
var allOfIt = &gyro.HistoryFilter{Limit: -1}

func show(offset uint64, data string, tags map[string]string, patch bool) string {
	text := fmt.Sprintf("%d %s", offset, data)
	if patch {
		text = fmt.Sprintf("%d patch", offset)
	}
	if len(tags) > 0 {
		text += fmt.Sprint(" ", tags)
	}
	return text
}
