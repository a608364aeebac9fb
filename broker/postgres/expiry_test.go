package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestExpiry: each entry of a map that a broker removes because it has expired is counted once.
func TestExpiry(t *testing.T) {
	t.Parallel()
	b := newDatabase(t).run(postgres.Config{}, newEvents())
	traits := b.Describe()
	const keys = 600 // more than are removed at a time
	for i := range keys {
		_, err := traits.Maps.Change(t.Context(), "map", &channel.Publication{Key: fmt.Sprint(i), Data: payload}, channel.MapOptions{KeyTTL: time.Second})
		must(t, err)
	}
	wait.Success(t, "all removals are counted", func() error {
		if e := traits.Expiry(); e.Removed != keys || e.Failures != 0 {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})
	s, err := traits.Maps.State(t.Context(), "map", channel.StateFilter{Limit: -1})
	must(t, err)
	if e := traits.Expiry(); len(s.Entries) != 0 || e.Removed != keys {
		t.Errorf("%d entries, %+v", len(s.Entries), e)
	}
}
