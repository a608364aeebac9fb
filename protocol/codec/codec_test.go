package codec

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/protocol"
)

func TestDecodeConnect(t *testing.T) {
	request := &protocol.ConnectRequest{
		Token: "t", Data: []byte(`{"a":1}`), Name: "n", Version: "v", Headers: map[string]string{"h": "x"},
		Subs: map[string]*protocol.SubscribeRequest{"c": {Recover: true, Offset: 12, Epoch: "e", Delta: "fossil"}},
	}
	text, err := request.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		e    protocol.Encoding
		data string
		want *protocol.ConnectRequest // nil: malformed
	}{
		{protocol.JSON, string(text), request},
		{protocol.JSON, `{}`, &protocol.ConnectRequest{}},
		{protocol.JSON, `null`, &protocol.ConnectRequest{}},
		{protocol.JSON, ` {"token":"t","id":1} {"token":"other"`, &protocol.ConnectRequest{Token: "t"}},
		{protocol.JSON, "{\n\"subs\":{\"c\":null}}\n", &protocol.ConnectRequest{Subs: map[string]*protocol.SubscribeRequest{"c": {}}}},
		{protocol.JSON, ``, nil},
		{protocol.JSON, `"{}"`, nil},
		{protocol.JSON, `{"token":7}`, nil},
		{protocol.JSON, `{"token":"t"`, nil},
		{protocol.Protobuf, string(request.AppendProto(nil)), request},
		{protocol.Protobuf, "", &protocol.ConnectRequest{}},
		{protocol.Protobuf, "\n\x05t", nil},
	} {
		var got protocol.ConnectRequest
		err := DecodeConnect(c.e, []byte(c.data), &got)
		if c.want == nil {
			if err == nil {
				t.Errorf("%v %q is taken for %+v", c.e, c.data, got)
			}
			continue
		}
		if d := cmp.Diff(c.want, &got); err != nil || d != "" {
			t.Errorf("%v %q: %v (-want +got):\n%s", c.e, c.data, err, d)
		}
	}
}
