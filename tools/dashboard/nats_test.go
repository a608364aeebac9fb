package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/programtest"
)

// natsServers: a node gets more from a NATS cluster than it can deliver, and then a server of the cluster is killed.
func natsServers(t *testing.T, c *cluster) {
	program := filepath.Join(c.dir, "nats-server")
	if err := programtest.Build(program, "github.com/nats-io/nats-server/v2"); err != nil {
		t.Fatal(err)
	}
	servers := newNATSCluster(c, program)
	own := c.configuration(new(member), "gyro")
	channel := own["channel"].(config)
	channel["namespaces"] = append(channel["namespaces"].([]config), config{
		"name": "fast", "broker_name": "fast", "allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true,
	})
	brokers := append(own["brokers"].([]config), config{"name": "fast", "enabled": true, "type": "nats", "nats": config{
		"url": "nats://" + servers[0].address() + ",nats://" + servers[1].address(), "raw_mode": config{"enabled": true},
	}})
	client := own["client"].(config)
	client["queue_max_size"], client["ping_interval"] = 1<<30, "10m"
	m := c.start(target{Cluster: "production", Instance: "c"}, "gyro", config{"brokers": brokers, "channel": channel, "client": client})
	t.Run("Dropped", func(t *testing.T) { c.on(t).flooded(m, servers[0].address()) })
	t.Run("Away", func(t *testing.T) {
		c := c.on(t)
		const away = "gyro_broker_nats_unreachable_servers"
		wait.Until(t, "servers that can be reached", func() bool { return m.value("gyro_node_ready") == 1 && m.value(away) == 0 })
		before := c.look(m)
		servers[1].kill()
		wait.Until(t, "a server that is away", func() bool { return m.value(away) == 1 })
		with := c.look(m)
		c.shows(func(f *film) { f.still(before, quiet) }, func(f *film) { f.still(with, 2*time.Minute) }, "GyroNATSServerAway")
		servers[1].run(c)
		wait.Until(t, "the server", func() bool { return m.value(away) == 0 })
	})
}

// flooded: the node stands while much is published, and gets it all at once.
func (c *cluster) flooded(m *member, server string) {
	const (
		dropped  = "gyro_broker_nats_dropped_messages_total"
		messages = 10_000
		size     = 8192 // bytes
	)
	c.crowdOf(20, m, "fast:x")
	var before look
	wait.Until(c.T, "messages that are dropped", func() bool {
		before = c.look(m)
		m.signal(syscall.SIGSTOP)
		defer m.signal(syscall.SIGCONT)
		publishNATS(c.T, server, "fast:x", messages, `"`+strings.Repeat("x", size)+`"`)
		m.signal(syscall.SIGCONT)
		return wait.Within(5*time.Second, func() bool { return m.value(dropped) > sum(before[m.target], dropped) })
	})
	with := c.look(m)
	c.shows(func(f *film) { f.still(before, quiet) }, func(f *film) { f.goesOn(before, with, time.Minute) }, "GyroNATSMessagesDropped")
}

// publishNATS publishes messages on a server, and returns when it has them.
func publishNATS(t *testing.T, server, subject string, n int, data string) {
	t.Helper()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	message := fmt.Appendf(nil, "PUB %s %d\r\n%s\r\n", subject, len(data), data)
	text := bytes.Join([][]byte{[]byte("CONNECT {\"verbose\":false}\r\n"), bytes.Repeat(message, n), []byte("PING\r\n")}, nil)
	if _, err := conn.Write(text); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(conn); s.Scan(); {
		if s.Text() == "PONG" {
			return
		}
	}
	t.Fatal("NATS has ended the connection")
}

// natsServer is a server of a NATS cluster.
type natsServer struct {
	program, config string
	port            int
	cmd             *exec.Cmd
}

// newNATSCluster starts two servers.
func newNATSCluster(c *cluster, program string) (servers [2]*natsServer) {
	c.Helper()
	var routes [2]int
	for i := range servers {
		servers[i] = &natsServer{program: program, config: filepath.Join(c.dir, fmt.Sprintf("nats-%d.conf", i))}
		for _, port := range []*int{&servers[i].port, &routes[i]} {
			var err error
			if *port, err = porttest.Free(); err != nil {
				c.Fatal(err)
			}
		}
	}
	for i, s := range servers {
		text := fmt.Sprintf(`listen: "127.0.0.1:%d", max_pending: 1GB, write_deadline: "1m"
			cluster { name: "alerts", listen: "127.0.0.1:%d", routes: ["nats-route://127.0.0.1:%d"] }`, s.port, routes[i], routes[1-i])
		if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
			c.Fatal(err)
		}
		c.Cleanup(s.kill)
		s.run(c)
	}
	return servers
}

func (s *natsServer) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// run starts a server that does not run, and returns when it accepts connections.
func (s *natsServer) run(c *cluster) {
	c.Helper()
	s.cmd = exec.Command(s.program, "-c", s.config)
	s.cmd.Stderr = c.Output()
	if err := s.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	wait.Success(c.T, "a NATS server", func() error {
		conn, err := net.Dial("tcp", s.address())
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// kill ends the process of a server.
func (s *natsServer) kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	_ = s.cmd.Wait()
}
