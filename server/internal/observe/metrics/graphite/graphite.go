// Package graphite pushes metrics by Graphite's plaintext protocol, over a TCP connection for each interval. The names
// are the Prometheus names with dots.
package graphite

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/logging"
)

const (
	dialing = time.Second
	sending = 5 * time.Second
)

// Config of a Pusher.
type Config struct {
	Gatherer prometheus.Gatherer
	// Address is host:port of Graphite.
	Address string
	// Prefix and Node begin all paths. Characters that are not ASCII, dots and blanks become underscores.
	Prefix, Node string
	// Interval is the time between two pushes.
	Interval time.Duration
	// Tags writes labels as tags. Otherwise they are parts of the path.
	Tags   bool
	Logger *slog.Logger
	// Dial connects; nil: by TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Pusher pushes metrics until Shutdown.
type Pusher struct {
	cfg    Config
	format format
	stop   context.CancelFunc
	done   chan struct{}

	// The goroutine of the pusher uses the fields below, Shutdown uses them after its end.
	sent   totals
	outage logging.Outage
}

// Start begins to push, first after an interval. It does not look for Graphite.
func Start(c Config) *Pusher {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: dialing}).DialContext
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Pusher{cfg: c, format: newFormat(c.Prefix, c.Node, c.Tags), stop: stop, done: make(chan struct{})}
	go p.run(ctx)
	return p
}

func (p *Pusher) run(ctx context.Context) {
	defer close(p.done)
	ticker := time.NewTicker(p.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.push(ctx)
		}
	}
}

// Shutdown pushes once more, unless ctx has ended, and stops.
func (p *Pusher) Shutdown(ctx context.Context) {
	p.stop()
	<-p.done
	p.push(ctx)
}

// push sends values, and the growth of counters since the last push that succeeded.
func (p *Pusher) push(ctx context.Context) {
	families, gathering := p.cfg.Gatherer.Gather() // with an error, families are incomplete
	text, next := p.format.append(nil, families, p.sent, time.Now())
	err := p.send(ctx, text)
	if err == nil {
		p.sent = next
	}
	if ctx.Err() != nil {
		return // it was ended
	}
	err = errors.Join(err, gathering)
	if err != nil {
		if p.outage.Fail(err) == 1 {
			p.cfg.Logger.Warn("metrics cannot be pushed to Graphite", "key", "graphite", "address", p.cfg.Address, "error", err)
		}
	} else if failures, _ := p.outage.End(); failures > 0 {
		p.cfg.Logger.Info("metrics are pushed to Graphite again", "address", p.cfg.Address)
	}
}

func (p *Pusher) send(ctx context.Context, text []byte) error {
	dial, cancel := context.WithTimeout(ctx, dialing)
	defer cancel()
	conn, err := p.cfg.Dial(dial, "tcp", p.cfg.Address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.SetWriteDeadline(time.Now().Add(sending)); err != nil {
		return errors.Join(err, conn.Close())
	}
	_, err = conn.Write(text)
	return errors.Join(err, conn.Close())
}
