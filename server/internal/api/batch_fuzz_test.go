package api

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzBatchedPublish: in a batch a publish command means what it means alone, and of
// the members of a command the right one counts.
func FuzzBatchedPublish(f *testing.F) {
	for _, s := range []string{`{"channel":"a","data":{"x":1}}`, `{"channel":"","data":1}`, `{"data":null,"channel":null}`, `null`, `{}`,
		`{"channel":"a","data":[ ],"tags":{"a":"b"},"version":7}`, `{"Channel":"a\u0041","DATA":"x","channel":"b"}`, `{"channel":"a","b64data":"YQ==","x":[]}`,
		`{"channel":1}`, `[]`, `{"channel":"a"}},{"publish":{}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, one []byte) {
		doc := []byte(`{"commands":[{"publish":` + string(one) + `},{"info":{},"PUBLISH":` + string(one) + `,"batch":1},null,{},` +
			`{"publish":{"channel":"x","data":1},"info":null,"publish":null,"broadcast":{},"broadcast":null,"info":{}},` +
			`{"publish":{"channel":"x","data":1},"rpc":{},"publish":` + string(one) + `}]}`)
		var want PublishRequest
		wantErr := want.UnmarshalJSON(one)
		var batch BatchRequest
		err := batch.UnmarshalJSON(doc)
		if wantErr != nil {
			if err == nil && json.Valid(one) {
				t.Fatalf("%s: accepted in a batch, but alone: %v", one, wantErr)
			}
			return
		}
		if err != nil || len(batch.Commands) != 6 {
			t.Fatalf("%s: %d commands, %v", one, len(batch.Commands), err)
		}
		publish, other := Request(&want), Request(nil)
		if isNull(one) { // as if the member were missing
			publish, other = nil, &InfoRequest{}
		}
		for i, want := range []Request{publish, orElse(publish, other), nil, nil, &InfoRequest{}, orElse(publish, &RPCRequest{})} {
			c := &batch.Commands[i]
			if c.Null != (i == 2) {
				t.Fatalf("%s: command %d: null is %v", one, i, c.Null)
			}
			if got := c.Request; !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: command %d is %+v, want %+v", one, i, got, want)
			}
		}
	})
}

func isNull(data []byte) bool {
	var v any
	return json.Unmarshal(data, &v) == nil && v == nil
}

func orElse(r, other Request) Request {
	if r != nil {
		return r
	}
	return other
}
