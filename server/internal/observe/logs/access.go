package logs

import (
	"context"
	"log/slog"
)

// Access decides which requests the access log has. Any goroutine may call its methods.
type Access struct {
	log     *slog.Logger
	control *Control // nil: the log is none of this package
}

// AccessOf returns the access log in a log.
func AccessOf(log *slog.Logger) Access { return Access{log, Of(log)} }

// On reports whether there is an access log.
func (a Access) On() bool {
	if c := a.control; c != nil {
		return c.access.Load() > 0 || c.level.Load() <= int64(slog.LevelDebug)
	}
	return a.log.Enabled(context.Background(), slog.LevelDebug)
}

// Next returns the level for the line of a request, and whether it is written: at LevelAccess if log.access is set and
// the request is in the sample, else at debug if that is on.
func (a Access) Next() (slog.Level, bool) {
	c := a.control
	if c == nil {
		return slog.LevelDebug, true
	}
	if every := c.access.Load(); every > 0 && (every == 1 || c.requests.Add(1)%uint64(every) == 0) {
		return LevelAccess, true
	}
	return slog.LevelDebug, c.level.Load() <= int64(slog.LevelDebug)
}
