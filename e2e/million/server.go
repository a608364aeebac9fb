//go:build linux

package million

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/process"
)

const loopback = "127.0.0.1"

// secret of the tokens of clients, and key of the API. The stand listens on loopback alone.
const (
	secret = "the-token-secret-of-a-stand-on-loopback"
	apiKey = rig.APIKey
)

// Server is a node: a gyro with one processor, and the same address when it is started again.
type Server struct {
	process.Life
	Index int
	Addr  string

	stand *Stand
	port  int
	down  atomic.Bool // nothing is published to it
}

func (n *Server) Start(ctx context.Context) error {
	cmd := exec.Command(n.stand.options.Gyro, "-c", n.stand.config, "-p", strconv.Itoa(n.port))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GYRO_NODE_NAME=node-"+strconv.Itoa(n.Index))
	p, err := n.Begin(n.stand.logs, fmt.Sprintf("node-%d", n.Index), cmd)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: time.Second}
	return p.Await(ctx, func() error {
		res, err := client.Get("http://" + n.Addr + "/health")
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
}

// kept descriptors of a node are for Redis, the API, listeners, and connections that are no clients yet.
const kept = 200

type object = map[string]any

func (s *Stand) configure() error {
	var namespaces []object
	for class := range plan.Classes {
		n := object{"name": class.String(), "allow_subscribe_for_client": true}
		if class.Recoverable() {
			n["history_size"], n["history_ttl"], n["force_recovery"] = 1000, "300s", true
		}
		if class == plan.Room {
			n["presence"] = true
		}
		namespaces = append(namespaces, n)
	}
	var shards []string
	for _, shard := range s.Shards {
		shards = append(shards, shard.Addr)
	}
	client := object{
		"token":                          object{"hmac_secret_key": secret},
		"recovery_max_publication_limit": 1000,
	}
	if limit, err := files(); err == nil && limit > 2*kept {
		// A client at a node without descriptors would wait, and try no other.
		client["connection_limit"] = limit - kept
	}
	if s.options.Ping > 0 {
		client["ping_interval"], client["pong_timeout"] = s.options.Ping.String(), (s.options.Ping * 4 / 5).String()
	}
	config := object{
		"http_server": object{"address": loopback},
		"log":         object{"level": "warn"},
		"health":      object{"enabled": true},
		"debug":       object{"enabled": true},
		"prometheus":  object{"enabled": true},
		"http_api":    object{"key": apiKey},
		"client":      client,
		"shutdown":    object{"drain_time": s.options.Drain.String()},
		"engine":      object{"type": "redis", "redis": object{"address": shards, "start_timeout": "60s"}},
		"channel":     object{"namespaces": namespaces},
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	s.config = filepath.Join(s.options.Out, "gyro.json")
	return os.WriteFile(s.config, text, 0o600)
}

func (s *Stand) newServer(i int) (*Server, error) {
	port, err := rig.FreePort()
	return &Server{Index: i, Addr: net.JoinHostPort(loopback, strconv.Itoa(port)), stand: s, port: port}, err
}
