//go:build !windows

package top

import "os"

// sequences does nothing: only consoles of Windows need a call before they follow escape sequences.
func sequences(*os.File) (undo func(), err error) { return func() {}, nil }
