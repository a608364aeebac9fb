//go:build !windows

package top

import "os"

// sequences does nothing: only consoles of Windows have to be told to follow escape sequences.
func sequences(*os.File) (undo func(), err error) { return func() {}, nil }
