package api_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

// TestKeyedChecks has every check of the fields; 108 means that
// all were passed, for there is no engine behind.
func TestKeyedChecks(t *testing.T) {
	tests := map[string][]struct{ request, want string }{
		"map_publish": {
			{`{"channel":"","key":"k"}`, "107"}, {`{"channel":"no:a","key":""}`, "107"}, {`{"channel":"no:a","key":"k"}`, "102"},
			{`{"channel":"a","key":"k"}`, "107"}, {`{"channel":"poll:a","key":"k"}`, "107"},
			{`{"channel":"map:a","key":"k","key_mode":"x"}`, "107"}, {`{"channel":"map:a","key":"k","b64data":"!"}`, "107"},
			{`{"channel":"map:a","key":"k"}`, "108"}, {`{"channel":"clients:a","key":"k","key_mode":"if_new"}`, "108"},
			{`{"channel":"users:a","key":"k","key_mode":"if_exists"}`, "108"},
			{`{"channel":"map:a","key":"k","stream_data":1,"b64stream_data":"!","score":1}`, "108"},
		},
		"map_remove": {
			{`{"key":"k"}`, "107"}, {`{"channel":"no:a"}`, "107"}, {`{"channel":"no:a","key":"k"}`, "102"},
			{`{"channel":"a","key":"k"}`, "107"}, {`{"channel":"map:a","key":"k"}`, "108"},
		},
		"shared_poll_publish": {
			{`{"key":"k","version":1}`, "107"}, {`{"channel":"no:a","version":1}`, "107"}, {`{"channel":"no:a","key":"k"}`, "107"},
			{`{"channel":"no:a","key":"k","version":1}`, "102"}, {`{"channel":"map:a","key":"k","version":1}`, "107"},
			{`{"channel":"pollro:a","key":"k","version":1,"b64data":"!"}`, "108"},
			{`{"channel":"poll:a","key":"k","version":1,"b64data":"!"}`, "107"}, {`{"channel":"poll:a","key":"k","version":1}`, "108"},
		},
	}
	for _, m := range []string{"map_read_state", "map_read_stream", "map_stats", "map_clear"} {
		tests[m] = []struct{ request, want string }{
			{`{}`, "107"}, {`{"channel":"no:a"}`, "102"}, {`{"channel":"full:a"}`, "107"}, {`{"channel":"map:a"}`, "108"},
		}
	}
	e := newExecutor(&apitest.Node{})
	for m, rows := range tests {
		for _, tt := range rows {
			if got := run(t, e, m, tt.request); got != tt.want {
				t.Errorf("%s %s: got %s, want %s", m, tt.request, got, tt.want)
			}
		}
	}
}

// keyed answers with what it was asked.
type keyed struct{ err error }

func (k keyed) MapPublish(_ context.Context, r *api.MapPublishRequest) (*api.MapPublishResult, error) {
	return &api.MapPublishResult{Offset: r.Version, Epoch: string(r.Data), Suppressed: r.Delta, SuppressReason: r.KeyMode}, k.err
}

func (k keyed) MapRemove(_ context.Context, r *api.MapRemoveRequest) (*api.MapRemoveResult, error) {
	return &api.MapRemoveResult{SuppressReason: r.Key + r.IdempotencyKey}, k.err
}

func (k keyed) MapReadState(_ context.Context, r *api.MapReadStateRequest) (*api.MapReadStateResult, error) {
	res := &api.MapReadStateResult{Offset: uint64(r.Limit), Epoch: r.Key, Cursor: r.Cursor}
	if r.RevisionOffset != 0 || r.RevisionEpoch != "" {
		res.Entries = []api.MapEntry{{Key: "k", Data: []byte("1"), Tags: map[string]string{"a": "b"},
			Offset: r.RevisionOffset, Score: -1, Removed: r.Asc, Time: 5}, {}}
	}
	return res, k.err
}

func (k keyed) MapReadStream(_ context.Context, r *api.MapReadStreamRequest) (*api.MapReadStreamResult, error) {
	res := &api.MapReadStreamResult{Offset: uint64(r.Limit)}
	if r.SinceOffset != 0 || r.SinceEpoch != "" {
		res.Epoch = fmt.Sprintf("%d %s %v", r.SinceOffset, r.SinceEpoch, r.Reverse)
	}
	return res, k.err
}

func (k keyed) MapStats(context.Context, *api.MapStatsRequest) (*api.MapStatsResult, error) {
	return &api.MapStatsResult{NumKeys: 7}, k.err
}

func (k keyed) MapClear(context.Context, *api.MapClearRequest) (*api.MapClearResult, error) {
	return &api.MapClearResult{}, k.err
}

func (k keyed) SharedPollPublish(_ context.Context, r *api.SharedPollPublishRequest) (*api.SharedPollPublishResult, error) {
	if k.err == nil && (string(r.Data) != "1" || r.B64Data != "" || r.Version != 2 || r.Epoch != "e" || r.Key != "k") {
		return nil, fmt.Errorf("got %+v", r)
	}
	return &api.SharedPollPublishResult{}, k.err
}

func TestKeyedEngine(t *testing.T) {
	tests := []struct{ method, request, want string }{
		{"map_publish", `{"channel":"map:a","key":"k","b64data":"MQ==","version":3,"key_mode":"if_new","tags":{},"idempotency_key":"i","version_epoch":"v"}`,
			`{"offset":3,"epoch":"1","suppress_reason":"if_new"}`},
		{"map_publish", `{"channel":"clients:a","key":"k"}`, `{"suppressed":true}`},
		{"map_remove", `{"channel":"map:a","key":"k","idempotency_key":"i"}`, `{"suppress_reason":"ki"}`},
		{"map_read_state", `{"channel":"map:a","limit":4,"key":"k","cursor":"c"}`, `{"offset":4,"epoch":"k","cursor":"c"}`},
		{"map_read_state", `{"channel":"map:a","revision_offset":9,"asc":true}`,
			`{"entries":[{"key":"k","data":1,"tags":{"a":"b"},"offset":9,"score":-1,"removed":true,"time":5},{}]}`},
		{"map_read_state", `{"channel":"map:a","revision_epoch":"e"}`,
			`{"entries":[{"key":"k","data":1,"tags":{"a":"b"},"score":-1,"time":5},{}]}`},
		{"map_read_stream", `{"channel":"map:a","limit":4}`, `{"offset":4}`},
		{"map_read_stream", `{"channel":"map:a","since_offset":1,"since_epoch":"e","reverse":true}`, `{"epoch":"1 e true"}`},
		{"map_stats", `{"channel":"map:a"}`, `{"num_keys":7}`},
		{"map_clear", `{"channel":"map:a"}`, `{}`},
		{"shared_poll_publish", `{"channel":"poll:a","key":"k","version":2,"epoch":"e","data":5,"b64data":"MQ=="}`, `{}`},
	}
	e := api.NewExecutor(api.Config{Node: &apitest.Node{}, Channels: apitest.Namespaces(), Keyed: keyed{}})
	failing := api.NewExecutor(api.Config{Node: &apitest.Node{}, Channels: apitest.Namespaces(), Keyed: keyed{err: protocol.ErrorUnrecoverablePosition}})
	for _, tt := range tests {
		if got := run(t, e, tt.method, tt.request); got != tt.want {
			t.Errorf("%s %s\ngot  %s\nwant %s", tt.method, tt.request, got, tt.want)
		}
		if got := run(t, failing, tt.method, tt.request); got != "112" {
			t.Errorf("%s with an engine's error: got %s", tt.method, got)
		}
	}
}
