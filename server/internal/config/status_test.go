package config

import (
	"slices"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// TestDefaultRedis: what counts as no Redis of its own is the default.
func TestDefaultRedis(t *testing.T) {
	c := DefaultConfig()
	if !slices.Equal(c.UserStatus.Redis.Address, []string{engines.DefaultRedis}) {
		t.Errorf("the default is %q, not %q", c.UserStatus.Redis.Address, engines.DefaultRedis)
	}
}
