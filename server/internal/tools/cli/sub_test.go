package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/client"
)

// TestGap: publications for which the client had no room, because nobody took what was printed, are told of in both forms. Others are
// told of by the subscription.
func TestGap(t *testing.T) {
	t.Parallel()
	at := client.StreamPosition{Offset: 7, Epoch: "e"}
	for _, one := range []struct {
		json bool
		gap  client.GapEvent
		want string
	}{
		{true, client.GapEvent{Channel: "news", To: at, Unread: true}, `{"type":"gap","channel":"news","offset":7,"epoch":"e"}`},
		{false, client.GapEvent{Channel: "news", To: at, Unread: true}, "news: publications are missing up to offset 7"},
		{true, client.GapEvent{Channel: "news", To: at}, ""},
	} {
		var out bytes.Buffer
		p := newPrinter(&Output{Out: &out, Err: &out, JSON: one.json}, []string{"news"}, Kind{}, 0)
		if err := p.event(one.gap); err != nil || one.want == "" && out.Len() > 0 || !strings.Contains(out.String(), one.want) {
			t.Errorf("%+v: %q %v", one.gap, out.String(), err)
		}
	}
}
