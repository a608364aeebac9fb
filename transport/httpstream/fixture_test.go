//go:build unix

package httpstream

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/transport/httpstream/internal/endpoint"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
)

// TestFixtures runs the conversations of testdata, see drivertest.Fixtures. They begin once the head of
// the answer is sent.
//
// The settings are a format, chunked, one-way, and first with commands that the request had. What the
// client sends, and each frame that the core writes, is a quoted text; "*N" behind it: N times.
func TestFixtures(t *testing.T) {
	drivertest.Fixtures(t, "testdata/*.txt", func(t *testing.T, settings []string, _ *drivertest.Witness) (p drivertest.Protocol[endpoint.Endpoint]) {
		format, chunked, kind := framing.Lines, false, HTTPStream
		for _, word := range settings {
			switch word {
			case "lines":
			case "events":
				format = framing.Events
			case "delimited":
				format = framing.Delimited
			case "chunked":
				chunked = true
			case "one-way":
				kind = UniHTTPStream
			case "first":
				p.First = []byte(`{"id":1}`)
			default:
				t.Fatalf("unknown setting %q", word)
			}
		}
		framer := framing.Of(format, chunked)
		p.Endpoint = endpoint.New(&NewHandler(kind, nil, Config{}).endpoint, framer)
		p.Sent = func(in *drivertest.Input) (data []byte) {
			for in.More() {
				data = append(data, in.Text()...)
			}
			return data
		}
		p.Frames = func(in *drivertest.Input) (list [][]byte) {
			for in.More() {
				buf := append(make([]byte, framer.Headroom()), in.Text()...)
				list = append(list, bytes.Clone(framer.Frame(buf)))
			}
			return list
		}
		p.Shown = func(got []byte) []string { return []string{shown(string(got))} }
		return p
	})
}

// shown shortens long runs of x.
func shown(text string) string {
	from := strings.Index(text, strings.Repeat("x", 100))
	if from < 0 {
		return strconv.Quote(text)
	}
	rest := strings.TrimLeft(text[from:], "x")
	n := len(text) - from - len(rest)
	return fmt.Sprintf(`%q "x"*%d %s`, text[:from], n, shown(rest))
}
