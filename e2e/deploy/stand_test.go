package deploy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// hosts: nodes have addresses of their own, as machines have, so all can use the same ports.
var hosts = []string{"127.0.0.2", "127.0.0.3"}

// stand is two nodes on a Redis behind a load balancer.
type stand struct {
	t        *testing.T
	balancer *balancer
	front    *rig.Front
	dir      string
	nodes    []*rig.Server
	internal []string
	// public and private are what the load balancer publishes; the documentation's publish nothing for backends.
	public, private   string
	clients, backends int
	env               []string
	cert, key         string
}

// start starts the nodes with the configuration of deploy/compose, and a load balancer with its own.
func start(t *testing.T, b *balancer, env ...string) *stand {
	t.Helper()
	s := &stand{t: t, balancer: b, dir: t.TempDir(), clients: rig.Port(t), backends: rig.Port(t)}
	program := b.find(t)
	redis, err := rig.StartRedis(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Kill)
	if s.cert, s.key, err = rig.CertificateFiles(s.dir, "rt.example.com"); err != nil {
		t.Fatal(err)
	}
	s.env = append([]string{
		"GYRO_HTTP_SERVER_INTERNAL_PORT=" + strconv.Itoa(s.backends),
		"GYRO_ENGINE_REDIS_ADDRESS=" + redis.Addr(),
		"GYRO_CLIENT_TOKEN_HMAC_SECRET_KEY=" + rig.TokenSecret,
		"GYRO_HTTP_API_KEY=" + rig.APIKey,
	}, env...)
	for i := range hosts {
		s.internal = append(s.internal, net.JoinHostPort(hosts[i], strconv.Itoa(s.backends)))
		s.nodes = append(s.nodes, s.run(i))
	}
	s.public, s.private = porttest.Address(t), porttest.Address(t)
	s.balance(program)
	return s
}

func (s *stand) run(i int) *rig.Server {
	s.t.Helper()
	args := []string{"-c", filepath.Join(folder, "gyro.json"), "-a", hosts[i], "-p", strconv.Itoa(s.clients)}
	node, err := rig.Launch(s.clients, args, append(s.env[:len(s.env):len(s.env)], fmt.Sprintf("GYRO_NODE_NAME=gyro-%d", i+1)))
	if err != nil {
		s.t.Fatal(err)
	}
	node.Addr = net.JoinHostPort(hosts[i], strconv.Itoa(s.clients))
	s.t.Cleanup(node.Kill)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("log of gyro-%d:\n%s", i+1, node.Log())
		}
	})
	wait.Until(s.t, "a node that is ready", func() bool { return ready(s.internal[i]) })
	return node
}

func ready(address string) bool {
	resp, err := http.Get("http://" + address + "/health/ready")
	return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

func (s *stand) balance(program string) {
	s.t.Helper()
	file := filepath.Join(s.dir, s.balancer.file)
	if err := os.WriteFile(file, []byte(s.balancer.configuration(s)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program, s.balancer.args(s.dir, file)...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir)
	var err error
	if s.front, err = rig.StartFront(cmd, s.public); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.front.Stop()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%.4000s", s.balancer.name, s.front.Log())
		}
	})
}

type client struct {
	*centrifuge.Client
	account.Absence
	subscribed   chan centrifuge.SubscribedEvent
	publications chan int
}

func (s *stand) connect(user, channel string) *client {
	s.t.Helper()
	c := &client{subscribed: make(chan centrifuge.SubscribedEvent, 64), publications: make(chan int, 64)}
	scheme := "ws"
	if s.balancer.tls {
		scheme = "wss"
	}
	c.Client = centrifuge.NewJsonClient(scheme+"://rt.example.com/connection/websocket", centrifuge.Config{
		Token:             rig.Token(map[string]any{"sub": user}),
		MinReconnectDelay: 10 * time.Millisecond, MaxReconnectDelay: 200 * time.Millisecond,
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, // no authority has signed it
		NetDialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.public)
		},
	})
	s.t.Cleanup(c.Close)
	c.OnConnecting(func(centrifuge.ConnectingEvent) { c.Left(time.Now()) })
	c.OnConnected(func(centrifuge.ConnectedEvent) { c.Returned(time.Now()) })
	sub, err := c.NewSubscription(channel)
	if err != nil {
		s.t.Fatal(err)
	}
	sub.OnSubscribed(func(e centrifuge.SubscribedEvent) { c.subscribed <- e })
	sub.OnPublication(func(e centrifuge.PublicationEvent) {
		var data struct{ N int }
		_ = json.Unmarshal(e.Data, &data) // 0 is wrong as well
		c.publications <- data.N
	})
	if err := c.Connect(); err != nil {
		s.t.Fatal(err)
	}
	if err := sub.Subscribe(); err != nil {
		s.t.Fatal(err)
	}
	wait.Receive(s.t, "subscribed", c.subscribed)
	c.Away(time.Now(), true) // the first connection does not count
	return c
}
