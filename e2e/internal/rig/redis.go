package rig

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// Redis is a process of redis-server that keeps nothing.
type Redis struct {
	port   int
	cmd    *exec.Cmd
	exited chan struct{}
}

// StartRedis starts one on a free port of 127.0.0.1 and returns when it accepts.
func StartRedis(dir string) (*Redis, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	log := &lockedBuffer{}
	r := &Redis{port: port, exited: make(chan struct{}), cmd: exec.Command(bin, "--port", strconv.Itoa(port),
		"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	dieWithParent(r.cmd)
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is visible in the log
		close(r.exited)
	}()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if c, err := net.Dial("tcp", r.Addr()); err == nil {
			return r, c.Close()
		}
		select {
		case <-r.exited:
			return nil, fmt.Errorf("redis-server ended: %s", log)
		case <-time.After(20 * time.Millisecond):
		}
	}
	r.Stop()
	return nil, fmt.Errorf("redis-server does not accept within %v: %s", startTimeout, log)
}

// Addr is host:port.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// Stop ends it.
func (r *Redis) Stop() {
	_ = r.cmd.Process.Kill() // it may have ended already, and keeps nothing
	<-r.exited
}
