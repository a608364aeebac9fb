package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

// FuzzUnmarshalRequest: what decodes is executed, and answered with JSON; the
// requests that have members of every type are what encoding/json makes of them.
func FuzzUnmarshalRequest(f *testing.F) {
	for _, m := range api.Methods() {
		f.Add(uint8(m), []byte(`{"channel":"a","channels":["a"],"data":{},"tags":{"a":"b"},"since":{"offset":1},"commands":[{"publish":{}},null],`+
			`"override":{"presence":{"value":true}},"disconnect":{"code":1},"whitelist":[""],"version":1,"key":"k"}`))
	}
	f.Add(uint8(api.MethodPublish), []byte(`{"Channel":"\u00e9","data": [1, 2] ,"skip_history":true,"tags":{"A":null},"version":18446744073709551615,"x":{"channel":1}}`))
	f.Add(uint8(api.MethodHistory), []byte(`{"channel":"a","limit":-2147483648,"since":{"offset":0,"epoch":"e"},"reverse":false}`))
	e := api.NewExecutor(api.Config{Node: &apitest.Node{}, Channels: apitest.Namespaces(), Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, method uint8, data []byte) {
		methods := api.Methods()
		req := methods[int(method)%len(methods)].NewRequest()
		err := req.UnmarshalJSON(data)
		compareRequest(t, data, req, err)
		if err != nil {
			return
		}
		res, err := e.Execute(context.Background(), req)
		if err != nil {
			if line := api.AppendError(nil, api.AsError(err)); !json.Valid(line) {
				t.Fatalf("error is no JSON: %s", line)
			}
			return
		}
		if line, err := res.AppendJSON(nil); err == nil && !json.Valid(line) {
			t.Fatalf("result is no JSON: %s", line)
		}
	})
}

// The members of two requests, as encoding/json understands them.
type (
	publishMembers struct {
		Channel        string            `json:"channel"`
		Data           json.RawMessage   `json:"data"`
		B64Data        string            `json:"b64data"`
		SkipHistory    bool              `json:"skip_history"`
		Tags           map[string]string `json:"tags"`
		IdempotencyKey string            `json:"idempotency_key"`
		Delta          bool              `json:"delta"`
		Version        uint64            `json:"version"`
		VersionEpoch   string            `json:"version_epoch"`
	}
	historyMembers struct {
		Channel string `json:"channel"`
		Limit   int32  `json:"limit"`
		Since   *struct {
			Offset uint64 `json:"offset"`
			Epoch  string `json:"epoch"`
		} `json:"since"`
		Reverse bool `json:"reverse"`
	}
)

func compareRequest(t *testing.T, data []byte, got api.Request, err error) {
	if !alike(data) {
		return
	}
	var want api.Request
	var wantErr error
	switch got.(type) {
	case *api.PublishRequest:
		var m publishMembers
		wantErr = json.Unmarshal(data, &m)
		want = &api.PublishRequest{Channel: m.Channel, Data: m.Data, Options: &api.PublishOptions{
			B64Data: m.B64Data, SkipHistory: m.SkipHistory, Tags: m.Tags, IdempotencyKey: m.IdempotencyKey,
			Delta: m.Delta, Version: m.Version, VersionEpoch: m.VersionEpoch,
		}}
	case *api.HistoryRequest:
		var m historyMembers
		wantErr = json.Unmarshal(data, &m)
		r := &api.HistoryRequest{Channel: m.Channel, Limit: m.Limit, Reverse: m.Reverse}
		if m.Since != nil {
			r.Since = &api.StreamPosition{Offset: m.Since.Offset, Epoch: m.Since.Epoch}
		}
		want = r
	default:
		return
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v; encoding/json: %v", data, err, wantErr)
	}
	if err != nil {
		return
	}
	none := cmp.Transformer("none", func(o *api.PublishOptions) api.PublishOptions {
		if o == nil {
			return api.PublishOptions{}
		}
		return *o
	})
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), none); diff != "" {
		t.Fatalf("%q (-encoding/json +decoder):\n%s", data, diff)
	}
}

// alike tells whether both decoders see the same in a document: encoding/json
// knows more about letter case than ASCII, and joins what members of one name say.
func alike(data []byte) bool {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > 512 {
		return false // may be nested too deeply
	}
	if bytes.Contains(data, []byte(`\u`)) || bytes.ContainsFunc(data, func(r rune) bool { return r >= 0x80 }) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var names []map[string]bool // of the objects around the token; nil for an array
	name := false               // a name comes next, if names ends with an object
	for {
		token, err := dec.Token()
		if err != nil {
			return true
		}
		switch token {
		case json.Delim('{'):
			names, name = append(names, map[string]bool{}), true
			continue
		case json.Delim('['):
			names, name = append(names, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			names = names[:len(names)-1]
			name = len(names) > 0 && names[len(names)-1] != nil
			continue
		}
		if len(names) == 0 || names[len(names)-1] == nil {
			continue
		}
		if !name {
			name = true
			continue
		}
		name = false
		key, _ := token.(string)
		if key = strings.ToLower(key); names[len(names)-1][key] {
			return false
		}
		names[len(names)-1][key] = true
	}
}
