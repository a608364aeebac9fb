// Package sizing is a model of the resources of a cluster while its clients wait: for each node, connection, shard and
// channel. It is fitted on the report of a small run, and predicts a larger one.
package sizing

import (
	"fmt"
	"math"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

// Model has the costs. Memory is in MB, CPU in processors.
type Model struct {
	SharedMemory  float64 `json:"shared_memory"`  // of the program, once per machine
	NodeMemory    float64 `json:"node_memory"`    // of a node without connections, and without its links to shards
	ConnMemory    float64 `json:"conn_memory"`    // of a connection with its subscription, in a node
	SocketMemory  float64 `json:"socket_memory"`  // of a connection in the kernel, both ends
	ShardMemory   float64 `json:"shard_memory"`   // of a Redis shard without channels
	ChannelMemory float64 `json:"channel_memory"` // of a channel that a node subscribes to, in Redis

	NodeCPU    float64 `json:"node_cpu"`    // of a node without connections
	ConnCPU    float64 `json:"conn_cpu"`    // of an idle connection, in its node
	LinkCPU    float64 `json:"link_cpu"`    // of Redis, for each link of a node to a shard
	CommandCPU float64 `json:"command_cpu"` // of Redis, for a command of a renewal or a mark per second

	LinkCommands float64 `json:"link_commands"` // of Redis, per second and link
	LinkIn       float64 `json:"link_in"`       // bytes into Redis, per second and link
	CommandIn    float64 `json:"command_in"`    // bytes into Redis, for a command
	LinkBytes    float64 `json:"link_bytes"`    // bytes through the network, per second and link
	ConnBytes    float64 `json:"conn_bytes"`    // bytes through the network, per second and idle connection, with what its node asks Redis for
}

// Commands of nodes to Redis while clients wait, per second, commands within scripts counted, as INFO commandstats
// shows: the position of a channel is checked every 40 seconds, a client with presence is renewed every 25 seconds, and
// each link marks its shard every second, once its node keeps a history there.
const (
	check   = 1.0 / 40
	renewal = 6.0 / 25
	mark    = 4.0
)

// batched is the cost of a command of a check, relative to a renewal or a mark: the checks of a node are plain commands
// that come together, and a script renews one client. Runs with 170,000 and a million connections, whose checks are an
// eighth and nearly half of the commands, have shown it.
const batched = 0.45

// alone is the CPU of a Redis server without connections, in processors.
const alone = 0.0018

// link is the memory of a node for each shard, in MB: buffers, and a queue of calls, as nodes with 5 and 20 shards show.
const link = 0.5

type Size struct{ Conns, Nodes, Shards int }

// channels returns how many channels nodes subscribe to, counted for each node with subscribers, how many of them have
// positions that are checked, and how many clients are in channels with presence.
func (s Size) channels() (subscribed, positioned, present float64, err error) {
	p, err := plan.New(s.Conns, s.Nodes, 1)
	if err != nil {
		return 0, 0, 0, err
	}
	for class := range plan.Classes {
		n := p.Channels(class)
		size := p.Members(class) / n
		// The nodes with a subscriber, if subscribers are anywhere.
		reach := float64(s.Nodes) * (1 - math.Pow(1-1/float64(s.Nodes), float64(size)))
		subscribed += float64(n) * reach
		if class.Recoverable() {
			positioned += float64(n) * reach
		}
	}
	return subscribed, positioned, float64(p.Members(plan.Room)), nil
}

// Fit wants a run with the phases empty, connect and idle.
func Fit(r *report.Report) (*Model, error) {
	var missing error
	get := func(section, row string) float64 {
		v, ok := r.Find(section, row)
		if !ok && missing == nil {
			missing = fmt.Errorf("the report has no %q of phase %q", row, section)
		}
		return v
	}
	s := Size{r.Conns, r.Nodes, r.Shards}
	subscribed, positioned, present, err := s.channels()
	if err != nil {
		return nil, err
	}
	if r.Nodes < 2 {
		return nil, fmt.Errorf("a model needs a run with 2 nodes or more, not %d: they show what nodes share", r.Nodes)
	}
	conns, nodes, shards := float64(r.Conns), float64(r.Nodes), float64(r.Shards)
	m := new(Model)
	// Each node has all shared memory in its RSS, and its part of it in its PSS.
	m.SharedMemory = (get("empty", "memory of the nodes (RSS)") - get("empty", "memory of the nodes (PSS)")) / (nodes - 1)
	m.NodeMemory = (get("empty", "memory of the nodes (PSS)")-m.SharedMemory)/nodes - shards*link
	m.ConnMemory = (get("idle", "memory of the nodes (PSS)") - get("empty", "memory of the nodes (PSS)")) / conns
	m.SocketMemory = get("idle", "kernel: slab") / conns
	m.ShardMemory = get("empty", "memory of Redis (PSS)") / shards
	m.ChannelMemory = (get("idle", "memory of Redis (PSS)") - get("empty", "memory of Redis (PSS)")) / subscribed
	m.NodeCPU = get("empty", "CPU of the nodes") / nodes
	m.ConnCPU = (get("idle", "CPU of the nodes") - get("empty", "CPU of the nodes")) / conns
	links, checks, renewals := nodes*shards, positioned*check, present*renewal+nodes*shards*mark
	m.LinkCommands = get("empty", "Redis commands") / links
	m.LinkCPU = max(0, get("empty", "CPU of Redis")-shards*alone) / links
	m.CommandCPU = (get("idle", "CPU of Redis") - get("empty", "CPU of Redis")) / (checks*batched + renewals)
	m.LinkIn = get("empty", "into Redis") / links
	m.CommandIn = (get("idle", "into Redis") - get("empty", "into Redis")) / (checks + renewals)
	m.LinkBytes = get("empty", "through the network") / links
	m.ConnBytes = (get("idle", "through the network") - get("empty", "through the network")) / conns
	return m, missing
}

// Row is a predicted row of phase idle, and the measured value if any.
type Row struct {
	Name      string
	Predicted float64
	Unit      string
	Measured  float64 // 0 if it was not measured
}

// Off is by how much the prediction is wrong: 0.1 is 10% too much.
func (r Row) Off() float64 {
	if r.Measured == 0 {
		return 0
	}
	return r.Predicted/r.Measured - 1
}

func (m *Model) Predict(s Size) ([]Row, error) {
	subscribed, positioned, present, err := s.channels()
	if err != nil {
		return nil, err
	}
	conns, nodes, shards := float64(s.Conns), float64(s.Nodes), float64(s.Shards)
	links, checks, renewals := nodes*shards, positioned*check, present*renewal+nodes*shards*mark
	return []Row{
		{Name: "memory of the nodes (PSS)", Predicted: m.SharedMemory + nodes*(m.NodeMemory+shards*link) + conns*m.ConnMemory, Unit: "MB"},
		{Name: "kernel: slab", Predicted: conns * m.SocketMemory, Unit: "MB"},
		{Name: "memory of Redis (PSS)", Predicted: shards*m.ShardMemory + subscribed*m.ChannelMemory, Unit: "MB"},
		{Name: "CPU of the nodes", Predicted: nodes*m.NodeCPU + conns*m.ConnCPU, Unit: "processors"},
		{Name: "CPU of Redis", Predicted: shards*alone + links*m.LinkCPU + (checks*batched+renewals)*m.CommandCPU, Unit: "processors"},
		{Name: "Redis commands", Predicted: links*m.LinkCommands + checks + renewals, Unit: "1/s"},
		{Name: "into Redis", Predicted: links*m.LinkIn + (checks+renewals)*m.CommandIn, Unit: "B/s"},
		{Name: "through the network", Predicted: links*m.LinkBytes + conns*m.ConnBytes, Unit: "B/s"},
	}, nil
}

func (m *Model) Compare(r *report.Report) ([]Row, error) {
	rows, err := m.Predict(Size{r.Conns, r.Nodes, r.Shards})
	for i := range rows {
		rows[i].Measured, _ = r.Find("idle", rows[i].Name)
	}
	return rows, err
}
