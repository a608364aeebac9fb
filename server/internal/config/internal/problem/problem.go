// Package problem collects mistakes of a configuration by key, with common checks.
package problem

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
)

// List is a list of problems.
type List struct{ errs []error }

// Add adds a problem of a key.
func (l *List) Add(key, format string, args ...any) {
	l.errs = append(l.errs, &schema.Problem{Key: key, Err: fmt.Errorf(format, args...)})
}

// Join adds the problems in err, which may be nil.
func (l *List) Join(err error) {
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

// Err joins all problems; nil if there are none.
func (l *List) Err() error { return errors.Join(l.errs...) }

// Positive demands a duration above zero.
func (l *List) Positive(key string, d time.Duration) {
	if d <= 0 {
		l.Add(key, "%s is not positive", d)
	}
}

// Between demands a duration from least to greatest.
func (l *List) Between(key string, d, least, greatest time.Duration) {
	if d < least || d > greatest {
		l.Add(key, "%s is not between %s and %s", d, least, greatest)
	}
}

// Quote quotes a value for a message, shortened if it is long.
func Quote(s string) string { return strconv.Quote(schema.Clip(s)) }
