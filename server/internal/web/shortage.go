package web

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/logging"
)

// Validity is how long a failed attempt to accept counts: a listener tries again within a second.
const Validity = 3 * time.Second

type lack struct {
	since, last time.Time // of failed attempts
	err         error
}

// tried notes an attempt to accept a connection. err says that there is no descriptor.
func (r *Reserve) tried(listener string, addr net.Addr, err error) {
	if err == nil && !r.lacking.Load() {
		return
	}
	now := time.Now()
	r.trying.Lock()
	defer r.trying.Unlock()
	l := r.lacks[listener]
	switch {
	case err != nil && l == nil:
		if r.lacks == nil {
			r.lacks = make(map[string]*lack)
		}
		r.lacks[listener] = &lack{now, now, err}
		r.lacking.Store(true)
		// They wait in the kernel's queue.
		r.log().Error("connections wait: no file descriptors are left", "listener", listener, "addr", addr.String(),
			"key", "client.connection_limit", "hint", "give the process more (LimitNOFILE, ulimit -n), or set client.connection_limit below them, so that clients are refused and try another node: docs/operations.md#the-system",
			"error", err)
	case err != nil:
		l.last, l.err = now, err
	case l != nil && now.Sub(l.last) > Validity:
		delete(r.lacks, listener)
		r.lacking.Store(len(r.lacks) > 0)
		r.log().Info("connections are accepted again", "listener", listener, "failed_at", l.since,
			logging.Milliseconds("after", l.last.Sub(l.since)))
	}
}

// Err tells which listeners have had no descriptor within the last 3 s.
func (r *Reserve) Err() error {
	if !r.lacking.Load() {
		return nil
	}
	r.trying.Lock()
	defer r.trying.Unlock()
	var errs []error
	for listener, l := range r.lacks {
		if time.Since(l.last) <= Validity {
			errs = append(errs, fmt.Errorf("the %s listener takes no connections: %w", listener, l.err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
