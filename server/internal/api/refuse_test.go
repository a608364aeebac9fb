package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
)

// Every refused command leaves a line with its method, its channel, why, and the key that
// would allow it.
func TestRefusedCommands(t *testing.T) {
	const off, sized = "channel.without_namespace.presence", "channel.without_namespace.history_size"
	for _, tt := range []struct {
		method      api.Method
		request     string
		channel     string
		key, reason string
		code        float64
	}{
		{method: api.MethodPublish, request: `{"data":1}`, code: 107, reason: "the request names no channel: member channel is missing or empty"},
		{method: api.MethodPublish, request: `{"channel":"a"}`, channel: "a", code: 107, key: "channel.without_namespace.publication_data_format", reason: "member data is missing or empty"},
		{method: api.MethodPublish, request: `{"channel":"a","b64data":"?"}`, channel: "a", code: 107, reason: "a member whose name begins with b64 is not Base64"},
		{method: api.MethodPublish, request: `{"channel":"no:a","data":1}`, channel: "no:a", code: 102, key: "channel.namespaces",
			reason: "no namespace has the name that is before the first channel.namespace_boundary"},
		{method: api.MethodBroadcast, request: `{"data":1}`, code: 107, reason: "the request names no channels: member channels is missing or empty"},
		{method: api.MethodBroadcast, request: `{"channels":["a",""],"data":1}`, code: 107, reason: "the request names no channel: member channel is missing or empty"},
		{method: api.MethodPresence, request: `{"channel":"a"}`, channel: "a", code: 108, key: off, reason: "presence is off in the channel's namespace"},
		{method: api.MethodPresenceStats, request: `{"channel":"a"}`, channel: "a", code: 108, key: off, reason: "presence is off in the channel's namespace"},
		{method: api.MethodHistory, request: `{"channel":"a"}`, channel: "a", code: 108, key: sized, reason: "history_size or history_ttl is 0 in the channel's namespace"},
		{method: api.MethodHistoryRemove, request: `{"channel":"a"}`, channel: "a", code: 108, key: sized, reason: "history_size or history_ttl is 0 in the channel's namespace"},
		{method: api.MethodSubscribe, request: `{"user":"u"}`, code: 107, reason: "the request names no channel: member channel is missing or empty"},
		{method: api.MethodMapPublish, request: `{"channel":"a","key":"k"}`, channel: "a", code: 107, key: "channel.without_namespace.subscription_type",
			reason: "subscription_type of the channel's namespace is not one of map, map_clients and map_users"},
		{method: api.MethodRPC, request: `{"method":"none"}`, code: 104, reason: "the server has no such RPC extension"},
		{method: api.MethodBatch, request: `{"commands":[{"publish":{"channel":""}}]}`, code: 107, reason: "the request names no channel: member channel is missing or empty"},
	} {
		var lines bytes.Buffer
		log := logging.Wrap(slog.New(slog.NewJSONHandler(&lines, nil)))
		exec := api.NewExecutor(api.Config{Node: &apitest.Node{}, Channels: apitest.Namespaces(), Logger: log})
		req := tt.method.NewRequest()
		if err := req.UnmarshalJSON([]byte(tt.request)); err != nil {
			t.Fatal(err)
		}
		_, _ = exec.Execute(context.Background(), req) // the answers are the matter of other tests
		if err := logging.Flush(log); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Level, Msg, Channel, Method, Reason, Key string
			Code                                     float64
		}
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Errorf("%s %s: %v in %q", tt.method, tt.request, err, lines.String())
			continue
		}
		method := strings.Replace(tt.method.String(), "batch", "publish", 1)
		if got.Level != "INFO" || got.Msg != "API command refused" || got.Method != method || got.Channel != tt.channel ||
			got.Reason != tt.reason || got.Key != tt.key || got.Code != tt.code {
			t.Errorf("%s %s: %s", tt.method, tt.request, lines.String())
		}
		if got.Key != "" {
			keytest.Check(t, got.Key)
		}
	}
}
