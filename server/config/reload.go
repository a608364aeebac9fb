package config

import (
	"fmt"
	"strings"

	"github.com/gyrohq/gyro/server/config/internal/schema"
)

// Reloaded returns what a server that was started with c has in force after a reload of
// next, which is validated (config.md 3.4): the values of next that a running server takes
// over, and all others of c. restart are the keys whose new values need a restart. Neither
// configuration changes. The error tells what is wrong with the result.
func (c *Config) Reloaded(next *Config) (result *Config, restart []string, err error) {
	merged := *c
	restart = schema.Reload(&merged, next)
	// The limit takes effect if connections were limited at start.
	if limit := &merged.Client.ConnectionLimit; c.Client.ConnectionLimit <= 0 && c.Client.ConnectionRateLimit <= 0 && *limit > 0 {
		*limit = c.Client.ConnectionLimit
		restart = append(restart, "client.connection_limit")
	}
	if err := merged.Validate(); err != nil {
		if len(restart) > 0 {
			err = fmt.Errorf("%w (keys that cannot change without a restart: %s)", err, strings.Join(restart, ", "))
		}
		return nil, nil, err
	}
	return &merged, restart, nil
}
