//go:build !unix

package main

import "log/slog"

// reopens does nothing where there is no SIGUSR1.
func reopens(*slog.Logger) (stop func()) { return func() {} }
