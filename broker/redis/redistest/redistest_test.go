//go:build unix

package redistest_test

import (
	"testing"

	"github.com/gyrohq/gyro/broker/redis/redistest"
)

func TestStandalone(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t, redistest.Options{Persistent: true, Password: "secret"})
	s.Do("SET", "key", "value")
	s.Restart(false)
	if got := s.Do("GET", "key"); got != "value" {
		t.Fatalf("%q after a restart with the data", got)
	}
	s.Stop()
	s.Continue()
	s.Restart(true)
	if got := s.Do("GET", "key"); got != "" {
		t.Fatalf("%q after a restart without data", got)
	}
	s.Kill()
	s.Kill()
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{Failover: true})
	first := s.Primary()
	if first != s.Servers[0] {
		t.Fatal("the first server is not the primary")
	}
	first.Kill()
	second := s.Await(first)
	second.Do("SET", "key", "value")
	first.Restart(true)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.Options{})
	slot := c.Slot("key")
	from := c.Owner(slot)
	c.Nodes[from].Do("SET", "key", "value")
	to := (from + 1) % len(c.Nodes)
	c.MoveSlot(slot, to)
	if got := c.Nodes[to].Do("GET", "key"); got != "value" {
		t.Fatalf("%q after the slot moved", got)
	}
}
