package config

import (
	"fmt"
	"strings"

	"github.com/gyrohq/gyro/server/config/internal/schema"
)

// Reloaded returns the configuration of a server that was started with c after a reload of
// next, which is valid. It has the values of next that a running server takes
// over, and all others of c. restart are the keys whose new values need a restart. Neither c nor
// next changes. The error says why the result is not valid.
func (c *Config) Reloaded(next *Config) (result *Config, restart []string, err error) {
	merged := *c
	restart = schema.Reload(&merged, next)
	// A limit takes effect only if the server limited connections at start.
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
