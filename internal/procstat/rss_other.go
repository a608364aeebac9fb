//go:build !linux

package procstat

import "errors"

func resident() (int64, error) { return 0, errors.ErrUnsupported }
