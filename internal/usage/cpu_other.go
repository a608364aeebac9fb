//go:build !unix && !windows

package usage

import (
	"errors"
	"time"
)

// cpuTime is not known here.
func cpuTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
