package cli

import "fmt"

// UsageError: the command was called in a wrong way, and the same call never succeeds.
type UsageError struct {
	Err error
}

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error without its kind.
func (e UsageError) Unwrap() error { return e.Err }

// Usage makes a UsageError of a format, as fmt.Errorf does.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
