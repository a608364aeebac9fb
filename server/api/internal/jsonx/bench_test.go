package jsonx_test

import (
	"encoding/json"
	"testing"

	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

// The benchmark by which the decoder of the API was chosen: a publish request,
// as encoding/json and as this package read it.
var publish = []byte(`{"channel":"chat:room:7","data":{"user":"42","text":"Hello, how are you today?","ts":1700000000},"tags":{"lang":"en"},"version":17}`)

func BenchmarkDecodeStd(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(publish)))
	for b.Loop() {
		var r struct {
			Channel string            `json:"channel"`
			Data    json.RawMessage   `json:"data"`
			Tags    map[string]string `json:"tags"`
			Version uint64            `json:"version"`
		}
		if err := json.Unmarshal(publish, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(publish)))
	for b.Loop() {
		var channel string
		var data []byte
		var tags map[string]string
		var version uint64
		d := jsonx.NewDecoder(publish)
		for ok := d.Object(); ok; ok = d.NextMember() {
			switch string(d.Name()) {
			case "channel":
				channel = d.String()
			case "data":
				data = d.Raw()
			case "tags":
				tags = d.StringMap()
			case "version":
				version = d.Uint64()
			default:
				d.Skip()
			}
		}
		if d.End() != nil || channel == "" || data == nil || tags == nil || version != 17 {
			b.Fatal(d.Err())
		}
	}
}

func BenchmarkValidStd(b *testing.B) {
	b.SetBytes(int64(len(publish)))
	for b.Loop() {
		json.Valid(publish)
	}
}

func BenchmarkValid(b *testing.B) {
	b.SetBytes(int64(len(publish)))
	for b.Loop() {
		jsonx.Valid(publish)
	}
}
