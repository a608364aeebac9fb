// Package doctor checks everything around a server that its configuration names: limits of the system, ports, Redis,
// NATS, PostgreSQL, clocks, certificates, backends and tokens. It changes nothing.
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

// Statuses: no problem, a possible problem, a problem.
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
	// Advice is the action to take; empty if there is no problem.
	Advice string `json:"advice,omitempty"`
}

// Options of an examination.
type Options struct {
	Config *config.Config
	// Warnings about the configuration.
	Warnings []string
	// Check finds mistakes that the validation does not find. It connects to nothing.
	Check func(*config.Config) error
	// Host, unless it is empty, is the host name that clients use: certificates must be for it.
	Host string
	// Proc is the /proc of the system; nil if it has none.
	Proc fs.FS
	// Roots are the authorities that clients know; nil: the authorities of the system.
	Roots *x509.CertPool
	// Ahead is how far the clock of this machine is ahead of time.Now.
	Ahead time.Duration
	// Timeout bounds each connection.
	Timeout time.Duration
	// Report gets each finding when it is there.
	Report func(Finding) error
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

// since rounds the time that something took for people.
func since(begun time.Time) time.Duration { return time.Since(begun).Round(10 * time.Microsecond) }
