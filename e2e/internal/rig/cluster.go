package rig

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// nodesOf returns how many nodes each server of a rig has: the variable E2E_NODES, 1 by default. A single node has
// everything in memory. Several are on one Redis, behind a proxy that relays each new connection to the next node: so
// clients that connect one after the other, and a client that reconnects, come to different nodes.
func nodesOf() (int, error) {
	text := os.Getenv("E2E_NODES")
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 16 {
		return 0, fmt.Errorf("E2E_NODES: %q is not a number from 1 to 16", text)
	}
	return n, nil
}

// startCluster runs nodes with the suites' configuration behind one address. Clusters with different names do not know
// each other.
func (r *Rig) startCluster(name string, env ...string) (*Server, error) {
	env = append([]string{"GYRO_ENGINE_TYPE=redis", "GYRO_ENGINE_REDIS_PREFIX=" + name, "GYRO_ENGINE_REDIS_ADDRESS=" + r.redis.Addr(),
		"GYRO_MAP_BROKER_TYPE=redis", "GYRO_MAP_BROKER_REDIS_PREFIX=" + name + "-maps", "GYRO_MAP_BROKER_REDIS_ADDRESS=" + r.redis.Addr()}, env...)
	s := &Server{}
	for range r.nodes {
		node, err := startConfigured(r.dir, r.tls, env...)
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.nodes = append(s.nodes, node)
	}
	var err error
	if s.balancer, err = newBalancer(s.nodes); err == nil {
		s.front, err = NewProxy(s.targets()...)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	s.Addr, s.UniGRPC, s.GRPCAPI = s.front.Addr(), s.nodes[0].UniGRPC, s.nodes[0].GRPCAPI
	return s, nil
}

func (s *Server) members() []*Server {
	if s.process != nil {
		return []*Server{s}
	}
	return s.nodes
}

// Nodes returns how many nodes a server has.
func (s *Server) Nodes() int { return len(s.members()) }

func (s *Server) targets() []string {
	var list []string
	for _, n := range s.members() {
		list = append(list, n.Addr)
	}
	return list
}

func (s *Server) stopCluster() {
	if s.front != nil {
		s.front.Close()
	}
	if s.balancer != nil {
		s.balancer.close()
	}
	for _, n := range s.nodes {
		n.terminate()
	}
	for _, n := range s.nodes {
		n.Stop()
	}
}

func (r *Rig) serve(name string, env ...string) (*Server, error) {
	if r.redis == nil {
		return startConfigured(r.dir, r.tls, env...)
	}
	switch {
	case r.nats != nil:
		env = append(env, "GYRO_BROKER_ENABLED=true", "GYRO_BROKER_TYPE=nats", "GYRO_BROKER_NATS_URL=nats://"+r.nats.Addr(), "GYRO_BROKER_NATS_PREFIX="+name)
	case r.postgres != nil:
		env = append(env, "GYRO_BROKER_ENABLED=true", "GYRO_BROKER_TYPE=postgres", "GYRO_MAP_BROKER_TYPE=postgres")
		for _, section := range []string{"GYRO_BROKER_POSTGRES_", "GYRO_MAP_BROKER_POSTGRES_"} {
			env = append(env, section+"DSN="+r.postgres.DSN("postgres"), section+"TABLE_PREFIX="+name,
				section+"BINARY_DATA=true", section+"USE_NOTIFY=true", section+"POOL_SIZE=8")
		}
	}
	return r.startCluster(name, env...)
}

// The brokers of several nodes: the value of E2E_BROKER. NATS keeps no history. Presence is at Redis.
const (
	brokerNATS     = "nats"
	brokerPostgres = "postgres"
)

func on(broker string) bool { return os.Getenv("E2E_BROKER") == broker }

func (r *Rig) startEngine() (err error) {
	if r.nodes, err = nodesOf(); err != nil || r.nodes == 1 {
		return err
	}
	if r.redis, err = StartRedis(r.dir); err != nil {
		return err
	}
	if on(brokerNATS) {
		r.nats, err = StartNATS()
	}
	if on(brokerPostgres) {
		r.postgres, err = postgrestest.Start(postgrestest.Options{Settings: []string{"fsync=off"}})
	}
	return err
}

// configText leaves out the settings that need history on NATS.
func configText() ([]byte, error) {
	if !on(brokerNATS) {
		return configFile, nil
	}
	var c map[string]any
	if err := json.Unmarshal(configFile, &c); err != nil {
		return nil, err
	}
	channel, _ := c["channel"].(map[string]any)
	list, _ := channel["namespaces"].([]any)
	for _, n := range list {
		maps.DeleteFunc(n.(map[string]any), func(key string, _ any) bool {
			return strings.Contains(key, "history") || strings.Contains(key, "recover") || strings.Contains(key, "delta")
		})
	}
	return json.Marshal(c)
}
