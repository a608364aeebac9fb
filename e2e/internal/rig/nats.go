package rig

import (
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// NATS is a NATS server in this process, which keeps its port when it restarts.
type NATS struct {
	port    int
	cluster server.ClusterOpts
	routes  string // where the server finds its cluster; empty: it waits for others, or is alone
	s       *server.Server
}

func StartNATS() (*NATS, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	n := &NATS{port: port}
	return n, n.Start()
}

// StartNATSPair starts a cluster of two, whose route goes through the proxy.
func StartNATSPair() (pair [2]*NATS, route *Proxy, err error) {
	for i := range pair {
		port, err := FreePort()
		if err != nil {
			return pair, nil, err
		}
		pair[i] = &NATS{port: port, cluster: server.ClusterOpts{Name: "pair", Host: "127.0.0.1", Port: server.RANDOM_PORT}}
	}
	if err = pair[0].Start(); err == nil {
		route, err = NewProxy(pair[0].s.ClusterAddr().String())
	}
	if err == nil {
		pair[1].routes = "nats-route://" + route.Addr()
		err = pair[1].Start()
	}
	return pair, route, err
}

// Addr is host:port.
func (n *NATS) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// Start starts a stopped server, and returns when it accepts.
func (n *NATS) Start() error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: n.port, Cluster: n.cluster, Routes: server.RoutesFromStr(n.routes), NoLog: true, NoSigs: true,
	})
	if err != nil {
		return err
	}
	n.s = s
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return errors.New("NATS does not start")
	}
	return nil
}

func (n *NATS) Stop() {
	if n.s != nil {
		n.s.Shutdown()
		n.s.WaitForShutdown()
		n.s = nil
	}
}

// Sent returns how many messages, and bytes of them, the running server has got from its clients and passed on to them.
func (n *NATS) Sent() (got, passed, gotBytes, passedBytes int64, err error) {
	v, err := n.s.Varz(nil)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	return v.InMsgs, v.OutMsgs, v.InBytes, v.OutBytes, nil
}

func (n *NATS) Connections() int { return n.s.NumClients() }
