//go:build !linux

package procstat

import "errors"

// resident is not known here.
func resident() (int64, error) { return 0, errors.ErrUnsupported }
