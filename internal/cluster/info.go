package cluster

import (
	"math"
	"time"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

func message(i *inspect.Node) *control.Node {
	n := &control.Node{
		UID: i.UID, Name: cut(i.Name), Version: cut(i.Version), Protocol: control.Version,
		NumClients: number(i.NumClients), NumUsers: number(i.NumUsers), NumSubs: number(i.NumSubs),
		NumChannels: number(i.NumChannels), Uptime: number(int(i.Uptime / time.Second)),
	}
	if p := i.Process; p != (inspect.Process{}) {
		n.Process = &control.Process{CPU: p.CPU, RSS: p.RSS}
	}
	return n
}

func number(n int) uint32 { return uint32(min(max(int64(n), 0), math.MaxUint32)) }

func infoOf(n *control.Node) inspect.Node {
	i := inspect.Node{
		UID: n.UID, Name: n.Name, Version: n.Version,
		NumClients: int(n.NumClients), NumUsers: int(n.NumUsers), NumSubs: int(n.NumSubs),
		NumChannels: int(n.NumChannels), Uptime: time.Duration(n.Uptime) * time.Second,
	}
	if p := n.Process; p != nil {
		i.Process = inspect.Process{CPU: p.CPU, RSS: p.RSS}
	}
	return i
}
