//go:build unix

package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// Sentinel is a primary with replicas and three Sentinels. A server that restarts keeps the role that the Sentinels
// wrote to its configuration file.
type Sentinel struct {
	// Master is the name of the primary for Sentinels.
	Master string
	// Servers hold data; the first began as the primary.
	Servers   []*Server
	Sentinels []*Server
}

// NewSentinel starts all servers.
func NewSentinel(tb testing.TB, opts Options) *Sentinel {
	tb.Helper()
	s := &Sentinel{Master: "main"}
	primary := standalone(tb, opts, []byte("# a primary\n"))
	s.Servers = []*Server{primary}
	for range max(1, opts.Replicas) {
		s.Servers = append(s.Servers, standalone(tb, opts, fmt.Appendf(nil, "replicaof 127.0.0.1 %s\n", portOf(primary))))
	}
	s.awaitReplicas()
	for range 3 {
		s.Sentinels = append(s.Sentinels, start(tb, "", append([]string{"--sentinel"}, opts.tlsArgs()...), s.config(opts)))
	}
	for _, sentinel := range s.Sentinels {
		sentinel.await("a Sentinel that knows the others", func() bool {
			state := sentinel.Do("SENTINEL", "MASTER", s.Master)
			return strings.Contains(state, "\nnum-other-sentinels\n2\n") && strings.Contains(state, fmt.Sprintf("\nnum-slaves\n%d\n", len(s.Servers)-1))
		})
	}
	return s
}

func (s *Sentinel) config(opts Options) []byte {
	config := fmt.Appendf(nil, "sentinel monitor %s 127.0.0.1 %s 2\n", s.Master, portOf(s.Servers[0]))
	downAfter := 300_000
	if opts.Failover {
		downAfter = 500
	}
	if opts.DownAfter > 0 {
		downAfter = int(opts.DownAfter.Milliseconds())
	}
	config = fmt.Appendf(config, "sentinel down-after-milliseconds %s %d\n", s.Master, downAfter)
	config = fmt.Appendf(config, "sentinel failover-timeout %s 3000\n", s.Master)
	if opts.Password != "" {
		config = fmt.Appendf(config, "sentinel auth-pass %s %s\n", s.Master, opts.Password)
	}
	return config
}

func (s *Sentinel) awaitReplicas() {
	for _, replica := range s.Servers[1:] {
		replica.await("the data of the primary", func() bool {
			return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
		})
	}
}

// Addresses of the Sentinels.
func (s *Sentinel) Addresses() []string { return addresses(s.Sentinels) }

// Primary is the server that the Sentinels name as the primary now, or nil if it is not in Servers.
func (s *Sentinel) Primary() *Server {
	for _, sentinel := range s.Sentinels {
		reply, err := sentinel.try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Master)
		if err != nil {
			continue
		}
		host, port, _ := strings.Cut(reply, "\n")
		for _, server := range s.Servers {
			if server.Addr() == net.JoinHostPort(host, port) {
				return server
			}
		}
	}
	return nil
}

// Await waits until another primary than old takes writes, and returns it.
func (s *Sentinel) Await(old *Server) *Server {
	var next *Server
	s.Sentinels[0].await("another primary", func() bool {
		next = s.successor(old)
		return next != nil
	})
	return next
}

func (s *Sentinel) successor(old *Server) *Server {
	primary := s.Primary()
	if primary == nil || primary == old {
		return nil
	}
	if role, err := primary.try("ROLE"); err != nil || !strings.HasPrefix(role, "master") {
		return nil
	}
	return primary
}

// Failover makes the Sentinels swap primary and replica, and returns the new primary. On a busy machine they may give up
// a failover: then they are asked again.
func (s *Sentinel) Failover() *Server {
	old := s.Primary()
	leader := s.Sentinels[0]
	var next *Server
	leader.await("a failover", func() bool {
		next = s.successor(old)
		if next == nil && s.rests(leader, old) {
			_, _ = leader.try("SENTINEL", "FAILOVER", s.Master) // it may refuse, as when no replica is fit
		}
		return next != nil
	})
	return next
}

func (s *Sentinel) rests(sentinel, primary *Server) bool {
	state, err := sentinel.try("SENTINEL", "MASTER", s.Master)
	return err == nil && strings.Contains(state, "\nport\n"+portOf(primary)+"\n") && !strings.Contains(state, "failover_in_progress")
}

func addresses(servers []*Server) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	return list
}

func portOf(s *Server) string {
	_, port, _ := net.SplitHostPort(s.Addr()) // well-formed
	return port
}
