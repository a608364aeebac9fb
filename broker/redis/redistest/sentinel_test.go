//go:build unix

package redistest

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestFailoverIsGivenUp: the Sentinels give up a failover, because the replica does not say in time that it is the primary. The
// next one succeeds. On a busy machine they may not even begin one, as the replica is silent for 5 s before they are asked.
func TestFailoverIsGivenUp(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t, Options{}) // with Options.Failover the replica would count as down
	log := s.Sentinels[0].log
	for range 5 {
		replica := s.Servers[0]
		if replica == s.Primary() {
			replica = s.Servers[1]
		}
		replica.Stop()
		givenUp := make(chan bool)
		go func() {
			const begun = 10 * time.Second // or never
			found := wait.Within(begun, func() bool { return strings.Contains(log.String(), "-failover-abort-slave-timeout") })
			replica.Continue()
			givenUp <- found
		}()
		if next := s.Failover(); next != replica {
			t.Errorf("the primary is %s, want %s", next.Addr(), replica.Addr())
		}
		if <-givenUp {
			return
		}
	}
	t.Errorf("no failover was given up:\n%s", log)
}
