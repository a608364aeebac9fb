package faults

import (
	"testing"

	"github.com/gyrohq/gyro/broker/redis/redistest"
)

// TestNodes: a node dies, and all nodes are restarted one by one with another configuration.
func TestNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	s := cluster(t, address(redis.Addr()))
	expose(t, s, clients, fault{
		name: "node killed", always: true, failing: true,
		inject: func(t *testing.T) {
			s.Nodes[0].Kill()
			s.Flow()
			s.Restart(0)
		},
	}, fault{
		name: "rolling deploy of another configuration", always: true,
		inject: func(t *testing.T) {
			for i := range s.Nodes {
				s.Nodes[i].Stop()
				s.Reconfigure(i,
					`GYRO_CHANNEL_NAMESPACES=[`+streams("200s")+", "+mapNamespaces+`]`,
					"GYRO_CLIENT_PING_INTERVAL=2s", "GYRO_CLIENT_PONG_TIMEOUT=1s", "GYRO_ENGINE_REDIS_FORCE_RESP2=true")
				s.Restart(i)
				s.Flow()
			}
		},
	}, fault{
		name:    "all nodes killed",
		failing: true,
		inject: func(t *testing.T) {
			for i := range s.Nodes {
				s.Nodes[i].Kill()
			}
			for i := range s.Nodes {
				s.Restart(i)
			}
		},
	})
}
