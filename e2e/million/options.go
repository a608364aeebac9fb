//go:build linux

// Package million runs a cluster with up to a million connections on one machine: Redis shards, nodes of one processor
// each, and load processes, phase after phase, with books of every message.
package million

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/proc"
)

type Options struct {
	Conns, Nodes, Shards int
	// Loads is the number of load processes. Default: as nodes, or more if descriptors ask for it.
	Loads int
	// Idle is how long the connections are left alone. Default: 60 seconds; if all phases run, the first node fails
	// after 3 minutes.
	Idle time.Duration
	// Step is the length of each rate and of other phases under load. Default: 3 seconds.
	Step time.Duration
	// Rates bounds the rates for each class of channels. Default: up to 16.
	Rates int
	// Ping is the time between pings. Default: 25 seconds, as the server's.
	Ping time.Duration
	// Drain is how long a stopped node takes to send its clients away. Default: 3 seconds.
	Drain time.Duration
	// Phases are the names of the phases to run. Default: all.
	Phases []string
	Out    string
	stand  time.Duration // all connections stand for so long before the first node fails
	// Gyro is the path of the server, Self of a program that calls Load if its first argument is LoadArgument.
	Gyro, Self string
	// View gets the live view, whose line it may overwrite on a Terminal.
	View     io.Writer
	Terminal bool
}

// spare descriptors of a node are for Redis, the API, listeners, and clients of a node that has failed.
const spare = 400

// perConnection is the machine's memory for a connection, in bytes: server, client and kernel.
const perConnection = 12_000

// perProcess is the memory of a process without connections, in bytes.
const perProcess = 20 << 20

func (o *Options) defaults() {
	if o.Idle == 0 {
		o.Idle = 60 * time.Second
		if len(o.Phases) == 0 {
			o.stand = 3 * time.Minute
		}
	}
	if o.Step == 0 {
		o.Step = 3 * time.Second
	}
	if o.Drain == 0 {
		o.Drain = 3 * time.Second
	}
	if o.Rates == 0 {
		o.Rates = 16
	}
	if o.Loads == 0 {
		o.Loads = o.Nodes
		if limit, err := files(); err == nil && limit > spare {
			o.Loads = max(o.Loads, (o.Conns+int(limit)-spare-1)/(int(limit)-spare))
		}
	}
	if o.View == nil {
		o.View = io.Discard
	}
}

func files() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Max, err
}

func (o *Options) check() error {
	var errs []error
	if o.Conns < 100 || o.Nodes < 1 || o.Shards < 1 {
		errs = append(errs, fmt.Errorf("CONNS=%d NODES=%d SHARDS=%d: at least 100, 1 and 1", o.Conns, o.Nodes, o.Shards))
		return errors.Join(errs...)
	}
	if limit, err := files(); err == nil {
		if need := o.Conns/max(1, o.Nodes-1) + kept + kept/2; o.Nodes > 1 && uint64(need) > limit {
			errs = append(errs, fmt.Errorf("descriptors: if one of %d nodes fails, each of the others needs %d, a process here may have %d (ulimit -Hn): NODES=%d would do",
				o.Nodes, need, limit, o.Conns/max(1, int(limit)-2*kept)+2))
		}
		if need := o.Conns/o.Nodes + spare; uint64(need) > limit {
			errs = append(errs, fmt.Errorf("descriptors: a node of %d connections needs %d, a process here may have %d (ulimit -Hn): NODES=%d would do",
				o.Conns/o.Nodes, need, limit, o.Conns/max(1, int(limit)-spare)+1))
		}
	}
	if most, ok := proc.Setting("fs/file-max"); ok && int64(o.Conns)*2+100_000 > most {
		errs = append(errs, fmt.Errorf("descriptors: %d are needed in all, fs.file-max is %d", o.Conns*2+100_000, most))
	}
	need := int64(o.Conns)*perConnection + int64(o.Nodes+o.Loads)*perProcess
	if have := proc.Available(); need > have {
		errs = append(errs, fmt.Errorf("memory: about %d MB are needed, %d MB are available: CONNS=%d would do",
			need>>20, have>>20, max(0, have-int64(o.Nodes+o.Loads)*perProcess)/perConnection))
	}
	for name, path := range map[string]string{"redis-server": "redis-server", "gyro (make build)": o.Gyro} {
		if _, err := exec.LookPath(path); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
