package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/broker/redis/redistest"
)

// TestCluster: slots move while their channels are published to, and a primary dies.
func TestCluster(t *testing.T) {
	t.Parallel()
	redis := redistest.NewCluster(t, redistest.Options{Persistent: true})
	s := cluster(t, redisEngine(fmt.Sprintf(`"cluster_address": [%q]`, strings.Join(redis.Addresses(), ","))))
	hold(t, s, clients, fault{
		name: "slots move", always: true,
		inject: func(t *testing.T) {
			for i := range 10 {
				slot := redis.Slot(fmt.Sprintf("{stream:%d}", i))
				redis.MoveSlot(slot, (redis.Owner(slot)+1)%len(redis.Nodes))
			}
		},
	}, fault{
		// A node whose canary belongs to a slot that is served says that it is fit.
		name: "primary killed, with data", always: true, failing: true,
		inject: func(t *testing.T) {
			node := busiest(redis)
			node.Kill()
			s.Failing("error 100")
			node.Restart(false)
			redis.Await()
		},
	}, fault{
		name: "each primary restarted",
		inject: func(t *testing.T) {
			for _, node := range redis.Nodes {
				node.Restart(false)
				redis.Await()
				s.Flow()
			}
		},
	})
}

// busiest is the server that most PUB/SUB connections are on.
func busiest(c *redistest.Cluster) *redistest.Server {
	var node *redistest.Server
	most := -1
	for _, n := range c.Nodes {
		if count := strings.Count(n.Do("CLIENT", "LIST", "TYPE", "pubsub"), "addr="); count > most {
			node, most = n, count
		}
	}
	return node
}
