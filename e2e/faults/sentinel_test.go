package faults

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestSentinel: the primary is killed several times. The Sentinels name the old one for a while, so
// that each node's first attempt to connect is refused. Redis acknowledges before it replicates:
// subscribers have to be told what is lost that way.
func TestSentinel(t *testing.T) {
	t.Parallel()
	redis := redistest.NewSentinel(t, redistest.Options{Persistent: true, Failover: true})
	s := cluster(t, redisWithMaps(fmt.Sprintf(`"sentinel_address": [%q], "sentinel_master_name": %q`,
		strings.Join(redis.Addresses(), ","), redis.Master)))
	var faults []fault
	for i := range *sentinelRounds {
		faults = append(faults, fault{
			name: fmt.Sprintf("primary killed, %d", i+1), always: true, failing: true, mayMiss: true, unfit: "redis",
			inject: func(t *testing.T) {
				old := redis.Primary()
				old.Kill()
				next := redis.Await(old)
				s.Flow()
				old.Restart(false)
				follow(t, old, next)
			},
		})
	}
	faults = append(faults, fault{
		// The old primary takes writes until the Sentinels have announced the new one, but nodes send it none.
		name: "failover by command", always: true, silence: 4 * time.Second,
		inject: func(t *testing.T) {
			old := redis.Primary()
			next := redis.Failover()
			s.Flow()
			follow(t, old, next)
		},
	})
	hold(t, s, clients, faults...)
}

// follow makes a server a replica of another, as the Sentinels would after some seconds.
func follow(t *testing.T, server, primary *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	server.Do("REPLICAOF", host, port)
	wait.Success(t, server.Addr()+" replicates", func() error {
		info := server.Do("INFO", "replication")
		if strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up") {
			return nil
		}
		return errors.New(info)
	})
}
