//go:build !windows

package top

import "os"

// Only consoles of Windows need a call before they follow escape sequences.
func sequences(*os.File) (undo func(), err error) { return func() {}, nil }
