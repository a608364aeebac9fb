package faults

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/e2e/internal/stand"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestSentinel: the primary is killed several times. The Sentinels name the old one for a while, so each node's first
// attempt to connect is refused. Redis acknowledges before it replicates: subscribers have to be told of losses.
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
	expose(t, s, clients, faults...)
	t.Run("failover by command", func(t *testing.T) {
		s.Use(t)
		plannedFailover(t, s, redis)
	})
	s.Use(t)
}

// plannedFailover makes the Sentinels replace a living primary. It takes writes until they have announced the new one, but
// nodes send it none: nothing is lost. A machine that is too busy to hear of it in time may lose something; then the
// next failover is judged.
func plannedFailover(t *testing.T, s *stand.Stand, redis *redistest.Sentinel) {
	const rounds = 5
	for range rounds {
		s.Begin()
		old := redis.Primary()
		next := redis.Failover()
		s.Flow()
		follow(t, old, next)
		span := s.Recovered()
		table.add(t.Name(), span)
		if span.Duplicated > 0 || len(span.Failures) > 0 {
			t.Errorf("%d duplicated: %q", span.Duplicated, span.Failures)
		}
		if span.Lost == 0 && span.Told == 0 {
			return
		}
	}
	t.Errorf("%d planned failovers in a row lost something", rounds)
}

// follow acts as the Sentinels would after some seconds.
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
