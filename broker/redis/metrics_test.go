package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/broker/redis/internal/pubsub"
)

// TestMetrics holds the names and labels of what the server exports.
func TestMetrics(t *testing.T) {
	for _, c := range []struct {
		name   string
		counts pubSubCounts
		want   []string
	}{
		{"two shards", pubSubCounts{
			waiting: []int{5, 0}, dropped: 4, client: pubsub.Failures{Connections: 1, Unsent: 2, Timeouts: 3, Subscribes: 4},
			controlWaiting: 1, controlDropped: 2,
		}, []string{
			"pub_sub_buffered_messages map[channel_type:client pub_sub_processor:0] 5",
			"pub_sub_buffered_messages map[channel_type:client pub_sub_processor:1] 0",
			"pub_sub_buffered_messages map[channel_type:control pub_sub_processor:0] 1",
			"pub_sub_dropped_messages map[channel_type:client] 4",
			"pub_sub_dropped_messages map[channel_type:control] 2",
			"pub_sub_errors map[error:connection] 1",
			"pub_sub_errors map[error:control_connection] 0",
			"pub_sub_errors map[error:control_probe_publish] 0",
			"pub_sub_errors map[error:control_probe_timeout] 0",
			"pub_sub_errors map[error:probe_publish] 2",
			"pub_sub_errors map[error:probe_timeout] 3",
			"pub_sub_errors map[error:subscribe_channel] 4",
			"pub_sub_errors map[error:subscribe_control_channel] 0",
		}},
		{"sharded PUB/SUB", pubSubCounts{sharded: true, control: pubsub.Failures{Connections: 1, Unsent: 2, Timeouts: 3, Subscribes: 4}}, []string{
			"pub_sub_buffered_messages map[channel_type:control pub_sub_processor:0] 0",
			"pub_sub_dropped_messages map[channel_type:client] 0",
			"pub_sub_dropped_messages map[channel_type:control] 0",
			"pub_sub_errors map[error:connection] 0",
			"pub_sub_errors map[error:control_connection] 1",
			"pub_sub_errors map[error:control_probe_publish] 2",
			"pub_sub_errors map[error:control_probe_timeout] 3",
			"pub_sub_errors map[error:probe_publish] 0",
			"pub_sub_errors map[error:probe_timeout] 0",
			"pub_sub_errors map[error:subscribe_control_channel] 4",
			"pub_sub_errors map[error:subscribe_shard_channel] 0",
		}},
	} {
		var got []string
		for _, m := range c.counts.metrics() {
			got = append(got, fmt.Sprint(m.Name, " ", m.Labels, " ", m.Value))
			if m.Counter == strings.Contains(m.Name, "buffered") || m.Help == "" {
				t.Errorf("%+v", m)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
