//go:build linux

package million

import (
	"os"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/proc"
)

type Usage struct {
	At                           time.Time
	Servers, Redis, Load, Driver time.Duration // CPU; the driver is this program, which publishes
	Machine                      proc.Machine
	Commands, In, Out            float64 // of all shards since their start
	EachServer, EachRedis        []time.Duration
}

func (s *Stand) Measure() Usage {
	u := Usage{At: time.Now(), Driver: proc.CPU(os.Getpid()), Machine: proc.ReadMachine()}
	for _, n := range s.Nodes {
		u.EachServer = append(u.EachServer, n.CPU())
		u.Servers += u.EachServer[n.Index]
	}
	for i, shard := range s.Shards {
		u.EachRedis = append(u.EachRedis, shard.CPU())
		u.Redis += u.EachRedis[i]
		if info, err := shard.Info(); err == nil { // one that is down has no figures
			u.Commands += info["total_commands_processed"]
			u.In += info["total_net_input_bytes"]
			u.Out += info["total_net_output_bytes"]
		}
	}
	for _, l := range s.Loads {
		u.Load += l.CPU()
	}
	return u
}

type Spent struct {
	Seconds                                    float64
	Servers, Redis, Load, Driver, Busy, Kernel float64 // processors; Kernel: charged to no process of the stand
	Commands, In, Out, Network                 float64 // of Redis, and through the loopback device, per second
	MostServer, MostRedis                      float64 // processors, of the busiest one
	EachServer                                 []float64
}

func (u Usage) Since(o Usage) Spent {
	took := u.At.Sub(o.At)
	part := func(a, b time.Duration) float64 { return float64(a-b) / float64(took) }
	each := func(a, b []time.Duration) (most float64) {
		for i := range min(len(a), len(b)) {
			most = max(most, part(a[i], b[i]))
		}
		return most
	}
	s := Spent{
		Seconds: took.Seconds(), Servers: part(u.Servers, o.Servers), Redis: part(u.Redis, o.Redis), Load: part(u.Load, o.Load),
		Driver: part(u.Driver, o.Driver), Busy: part(u.Machine.Busy, o.Machine.Busy),
		// A server that was started again has counted from 0.
		Commands: max(0, u.Commands-o.Commands) / took.Seconds(), In: max(0, u.In-o.In) / took.Seconds(), Out: max(0, u.Out-o.Out) / took.Seconds(),
		Network:    float64(u.Machine.Loopback-o.Machine.Loopback) / took.Seconds(),
		MostServer: each(u.EachServer, o.EachServer), MostRedis: each(u.EachRedis, o.EachRedis),
	}
	for i := range min(len(u.EachServer), len(o.EachServer)) {
		s.EachServer = append(s.EachServer, part(u.EachServer[i], o.EachServer[i]))
	}
	s.Kernel = max(0, s.Busy-s.Servers-s.Redis-s.Load-s.Driver)
	return s
}

type Memory struct {
	Servers, Redis, Load, Driver proc.Memory
	MostServer                   proc.Memory
	Machine                      proc.Machine
}

func (s *Stand) Memory() Memory {
	m := Memory{Driver: proc.MemoryOf(os.Getpid()), Machine: proc.ReadMachine()}
	for _, n := range s.Nodes {
		one := proc.MemoryOf(n.PID())
		m.Servers.Add(one)
		if one.PSS > m.MostServer.PSS {
			m.MostServer = one
		}
	}
	for _, shard := range s.Shards {
		m.Redis.Add(proc.MemoryOf(shard.PID()))
	}
	for _, l := range s.Loads {
		m.Load.Add(proc.MemoryOf(l.PID()))
	}
	return m
}
