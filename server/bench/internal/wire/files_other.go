//go:build !unix

package wire

// EnsureFiles does nothing: limits are unknown here.
func EnsureFiles(int) error { return nil }
