//go:build !unix && !windows

package procstat

import (
	"errors"
	"time"
)

// cpuTime is not known here.
func cpuTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
