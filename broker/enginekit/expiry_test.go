package enginekit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker"
)

// TestExpiryMeter: the lag grows until a look has left nothing behind, and counts from its begin.
func TestExpiryMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ExpiryMeter
		want := func(e broker.Expiry) {
			t.Helper()
			if got := m.Expiry(); got != e {
				t.Errorf("%+v, want %+v", got, e)
			}
		}
		time.Sleep(time.Minute)
		want(broker.Expiry{}) // nobody looks
		m.Looked(time.Now(), errors.New("down"))
		time.Sleep(time.Second)
		m.Looked(time.Now(), errors.New("down"))
		time.Sleep(time.Second)
		want(broker.Expiry{Failures: 2, Lag: 2 * time.Second})
		began := time.Now()
		time.Sleep(3 * time.Second)
		m.Removed(7)
		m.Looked(began, nil)
		want(broker.Expiry{Removed: 7, Failures: 2, Lag: 3 * time.Second})
	})
}
