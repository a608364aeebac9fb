package app

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/internal/config"
)

// With the default delays, the backend is asked about a connection when it expires, and about a
// subscription 25 s later at the earliest, within the interval of 27 s then.
func TestProxyTimes(t *testing.T) {
	b := newTestBackend(t) // outside of the bubble, so that time does not wait for it
	synctest.Test(t, func(t *testing.T) {
		s := startVirtual(t, proxied(b, func(cfg *config.Config) {
			cfg.Client.Proxy.Refresh.Enabled = true
			cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
		}))
		const life = time.Minute
		start := time.Now()
		b.answer("Subscribe", fmt.Sprintf(`{"result":{"expire_at":%d}}`, start.Add(life).Unix()))
		b.answer("Refresh", `{"result":{"expire_at":9999999999}}`)
		b.answer("SubRefresh", `{"result":{"expire_at":9999999999}}`)
		c := s.pipe()
		c.Connect(s.tokenField(jwt.MapClaims{"sub": "u", "exp": start.Add(life).Unix()}))
		c.Subscribe("a", "")
		for _, at := range []struct {
			after               time.Duration
			refresh, subRefresh int
		}{
			{life - time.Second, 0, 0},
			{life + time.Second, 1, 0},
			{life + 25*time.Second - time.Second, 1, 0},
			{life + 25*time.Second + 27*time.Second + time.Second, 1, 1},
			{24 * time.Hour, 1, 1},
		} {
			time.Sleep(time.Until(start.Add(at.after)))
			synctest.Wait()
			refresh, subRefresh := len(b.askedAbout("Refresh")), len(b.askedAbout("SubRefresh"))
			if refresh != at.refresh || subRefresh != at.subRefresh {
				t.Errorf("after %v the backend was asked %d times about the connection, %d times about the subscription", at.after, refresh, subRefresh)
			}
		}
	})
}
