package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/server/config/internal/schema"
)

// Changes are the keys whose values a reload found changed, as messages name them, without their
// values.
type Changes struct {
	// Applied are in force.
	Applied []string
	// Restart are not in force before the server has started anew.
	Restart []string
}

// Reloaded returns the configuration of a server that was started with c, which has been in force as now, after
// a reload of next, which is valid. It has the values of next that a running server takes
// over, and all others of c. None of the arguments changes. The error says why the result is not valid.
func (c *Config) Reloaded(now, next *Config) (*Config, Changes, error) {
	merged := *now
	var changes Changes
	changes.Applied, changes.Restart = schema.Reload(&merged, next)
	// A limit takes effect only if the server limited connections at start.
	const limitKey = "client.connection_limit"
	if limit := &merged.Client.ConnectionLimit; c.Client.ConnectionLimit <= 0 && c.Client.ConnectionRateLimit <= 0 && *limit > 0 {
		*limit = c.Client.ConnectionLimit
		changes.Applied = slices.DeleteFunc(changes.Applied, func(k string) bool { return k == limitKey })
		changes.Restart = append(changes.Restart, limitKey)
	}
	if err := merged.Validate(); err != nil {
		if len(changes.Restart) > 0 {
			err = fmt.Errorf("%w (keys that cannot change without a restart: %s)", err, strings.Join(changes.Restart, ", "))
		}
		return nil, Changes{}, err
	}
	return &merged, changes, nil
}
