package faults

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestCluster: slots move while their channels are published to, and a primary dies.
func TestCluster(t *testing.T) {
	t.Parallel()
	redis := redistest.NewCluster(t, redistest.Options{Persistent: true, Failover: true})
	s := cluster(t, redisWithMaps(fmt.Sprintf(`"cluster_address": [%q]`, strings.Join(redis.Addresses(), ","))))
	expose(t, s, clients, fault{
		name: "slots move", always: true,
		inject: func(t *testing.T) {
			for i := range 10 {
				slot := redis.Slot(fmt.Sprintf("{stream:%d}", i))
				redis.MoveSlot(slot, (redis.Owner(slot)+1)%len(redis.Nodes))
			}
		},
	}, fault{
		name: "primary killed, with data", always: true, failing: true, unfit: "redis",
		inject: func(t *testing.T) {
			node := busiest(redis)
			node.Kill()
			s.Failing("error 100")
			allUnfit(s)
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

// busiest has the most PUB/SUB connections.
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

// TestClusterFailover: a primary dies, and its replica takes its place.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	redis := redistest.NewCluster(t, redistest.Options{Persistent: true, Failover: true})
	replicas := addReplicas(t, redis)
	s := cluster(t, redisWithMaps(fmt.Sprintf(`"cluster_address": [%q]`, strings.Join(redis.Addresses(), ","))))
	expose(t, s, clients, fault{
		name: "primary killed, replica takes over", always: true, failing: true, mayMiss: true, unfit: "canary",
		inject: func(t *testing.T) {
			at := redis.Owner(redis.Slot("{stream:0}"))
			redis.Nodes[at].Kill()
			s.Failing("error 100")
			allUnfit(s)
			wait.Until(t, "the replica's promotion", func() bool {
				return strings.HasPrefix(replicas[at].Do("ROLE"), "master")
			})
			s.Flow()
			redis.Nodes[at].Restart(false)
		},
	})
}

func addReplicas(t *testing.T, c *redistest.Cluster) []*redistest.Server {
	t.Helper()
	var replicas []*redistest.Server
	for _, node := range c.Nodes {
		replica := redistest.Standalone(t, redistest.Options{Persistent: true, Args: []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"}})
		host, port, err := net.SplitHostPort(node.Addr())
		if err != nil {
			t.Fatal(err)
		}
		replica.Do("CLUSTER", "MEET", host, port)
		id := node.Do("CLUSTER", "MYID")
		wait.Until(t, "acquaintance with the primary", func() bool {
			return strings.Contains(replica.Do("CLUSTER", "NODES"), id) && strings.Contains(replica.Do("CLUSTER", "INFO"), "cluster_state:ok")
		})
		replica.Do("CLUSTER", "REPLICATE", id)
		replicas = append(replicas, replica)
	}
	for i, replica := range replicas {
		wait.Until(t, "the replication of the primary", func() bool {
			if !strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up") {
				return false
			}
			for _, node := range c.Nodes { // all nodes have to know the replicas
				if !strings.Contains(node.Do("CLUSTER", "NODES"), replicas[i].Do("CLUSTER", "MYID")) {
					return false
				}
			}
			return true
		})
	}
	return replicas
}
