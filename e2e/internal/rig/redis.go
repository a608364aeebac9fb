package rig

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"

	"github.com/gyrohq/gyro/gyrotest/need"
)

// Redis is a redis-server that writes nothing to disk.
type Redis struct {
	*process
	addr string
}

// StartRedis starts one on a free port of 127.0.0.1.
func StartRedis(dir string) (*Redis, error) {
	bin, err := need.Path("redis-server")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	p, err := run(exec.Command(bin, "--port", strconv.Itoa(port),
		"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir))
	if err != nil {
		return nil, err
	}
	r := &Redis{process: p, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	err = p.await(func() bool {
		c, err := net.Dial("tcp", r.addr)
		return err == nil && c.Close() == nil
	})
	if err != nil {
		return nil, fmt.Errorf("redis-server: %w: %s", err, &p.output)
	}
	return r, nil
}

// Addr is host:port.
func (r *Redis) Addr() string { return r.addr }
