//go:build unix

package redistest

import (
	"net"
	"strconv"
	"strings"
	"testing"
)

const slots = 16384

// Cluster is a Redis Cluster of primaries, without replicas unless they are added.
type Cluster struct {
	// Nodes have equal ranges of slots, from 0 on.
	Nodes []*Server
	opts  Options
}

// NewCluster starts three nodes.
func NewCluster(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	const size = 3
	opts.Args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, opts.Args...)
	c := &Cluster{opts: opts}
	for i := range size {
		node := Standalone(tb, opts)
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		add := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / size; slot < (i+1)*slots/size; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		node.Do(add...)
		c.Nodes = append(c.Nodes, node)
	}
	for _, node := range c.Nodes[1:] {
		node.Do("CLUSTER", "MEET", "127.0.0.1", portOf(c.Nodes[0]))
	}
	c.Await()
	if !opts.Failover { // a Cluster comes together sooner with the shorter time
		for _, node := range c.Nodes {
			node.Do("CONFIG", "SET", "cluster-node-timeout", "300000")
		}
	}
	return c
}

// Await waits until every node knows the others and all slots are served.
func (c *Cluster) Await() {
	for _, node := range c.Nodes {
		node.await("a whole cluster", func() bool {
			info, err := node.try("CLUSTER", "INFO")
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes)))
		})
	}
}

// Addresses of the nodes.
func (c *Cluster) Addresses() []string { return addresses(c.Nodes) }

// Slot of a key.
func (c *Cluster) Slot(key string) int {
	slot, err := strconv.Atoi(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key))
	if err != nil {
		c.Nodes[0].tb.Fatal(err)
	}
	return slot
}

// Owner is the index of the node that has the slot, or -1.
func (c *Cluster) Owner(slot int) int {
	for i, node := range c.Nodes {
		for _, line := range strings.Split(node.Do("CLUSTER", "NODES"), "\n") {
			if strings.Contains(line, "myself") && hasSlot(strings.Fields(line), slot) {
				return i
			}
		}
	}
	return -1
}

// hasSlot: a line of CLUSTER NODES has slots and ranges from the ninth field on.
func hasSlot(fields []string, slot int) bool {
	for i := 8; i < len(fields); i++ {
		low, high, found := strings.Cut(fields[i], "-")
		if !found {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 == nil && err2 == nil && from <= slot && slot <= to {
			return true
		}
	}
	return false
}

// MoveSlot migrates a slot as redis-cli does: between the steps, clients get ASK, then MOVED.
func (c *Cluster) MoveSlot(slot, to int) {
	from := c.Owner(slot)
	if from == to {
		return
	}
	source, target, number := c.Nodes[from], c.Nodes[to], strconv.Itoa(slot)
	sourceID, targetID := source.Do("CLUSTER", "MYID"), target.Do("CLUSTER", "MYID")
	target.Do("CLUSTER", "SETSLOT", number, "IMPORTING", sourceID)
	source.Do("CLUSTER", "SETSLOT", number, "MIGRATING", targetID)
	host, port, _ := net.SplitHostPort(target.Addr())
	for {
		keys := source.Do("CLUSTER", "GETKEYSINSLOT", number, "100")
		if keys == "" {
			break
		}
		migrate := []string{"MIGRATE", host, port, "", "0", "5000"}
		if target.password != "" {
			migrate = append(migrate, "AUTH", target.password)
		}
		source.Do(append(append(migrate, "KEYS"), strings.Split(keys, "\n")...)...)
	}
	target.Do("CLUSTER", "SETSLOT", number, "NODE", targetID)
	source.Do("CLUSTER", "SETSLOT", number, "NODE", targetID)
	for _, node := range c.Nodes {
		node.await("the new owner of the slot", func() bool {
			return hasSlot(strings.Fields(lineOf(node.Do("CLUSTER", "NODES"), targetID)), slot)
		})
	}
}

func lineOf(nodes, id string) string {
	for _, line := range strings.Split(nodes, "\n") {
		if strings.HasPrefix(line, id) {
			return line
		}
	}
	return ""
}

// AddReplica starts a replica, which is not in Nodes, and waits until it has the node's data.
func (c *Cluster) AddReplica(of *Server) *Server {
	replica := Standalone(of.tb, c.opts)
	replica.Do("CLUSTER", "MEET", "127.0.0.1", portOf(c.Nodes[0]))
	id := of.Do("CLUSTER", "MYID")
	replica.await("the cluster", func() bool { return lineOf(replica.Do("CLUSTER", "NODES"), id) != "" })
	replica.Do("CLUSTER", "REPLICATE", id)
	replica.await("the data", func() bool {
		return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
	})
	for _, node := range c.Nodes {
		node.await("the replica", func() bool {
			line := lineOf(node.Do("CLUSTER", "NODES"), replica.Do("CLUSTER", "MYID"))
			return strings.Contains(line, "slave "+id)
		})
	}
	return replica
}
