//go:build !linux

package usage

import "errors"

// resident is not known here.
func resident() (int64, error) { return 0, errors.ErrUnsupported }
