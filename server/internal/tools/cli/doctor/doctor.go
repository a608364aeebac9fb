// Package doctor checks the surroundings of a server: limits of the system, ports, Redis, NATS, PostgreSQL, clocks,
// certificates, backends and tokens. It changes nothing.
package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Status of a finding.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warning"
	Fail Status = "problem"
)

// Finding is the result of one check.
type Finding struct {
	Area   string `json:"area"`
	Status Status `json:"status"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// Options of an examination.
type Options struct {
	Config   *config.Config
	Warnings []string
	// Check finds mistakes that the validation does not find. It connects to nothing.
	Check func(*config.Config) error
	// Host, if set, is the host name that clients use: certificates must be for it.
	Host string
	// Proc is the /proc of the system; nil if it has none.
	Proc fs.FS
	// Roots are the authorities that clients know; nil: the authorities of the system.
	Roots   *x509.CertPool
	Ahead   time.Duration
	Timeout time.Duration
	Report  func(Finding) error
}

// Examine makes all checks, and returns whether one has found a problem.
func Examine(ctx context.Context, o Options) (failed bool, err error) {
	d := &doctor{Options: o}
	for _, area := range []func(context.Context){d.configuration, d.tokens, d.limits, d.ports, d.certificates, d.engines, d.queues, d.backends} {
		area(ctx)
		if d.err != nil || ctx.Err() != nil {
			return d.failed, errors.Join(d.err, context.Cause(ctx))
		}
	}
	return d.failed, nil
}

type doctor struct {
	Options
	failed bool
	err    error // of Report
}

func (d *doctor) report(area string, s Status, advice, format string, args ...any) {
	d.failed = d.failed || s == Fail
	if d.err == nil {
		d.err = d.Report(Finding{Area: area, Status: s, Text: fmt.Sprintf(format, args...), Advice: advice})
	}
}

func (d *doctor) configuration(context.Context) {
	const area = "configuration"
	for _, w := range d.Warnings {
		d.report(area, Warn, "correct or remove the key", "%s", w)
	}
	if err := d.Check(d.Config); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			d.report(area, Fail, "correct the key: the server does not start", "%s", line)
		}
		return
	}
	d.report(area, OK, "", "the server starts with it")
}

func since(begun time.Time) time.Duration { return time.Since(begun).Round(10 * time.Microsecond) }
