//go:build linux

// Package operator runs a cluster like the cluster of an operator, with one fault after the other, and tells how each fault looked to the
// clients and to each tool. Three nodes are on a Redis with two replicas and three Sentinels, behind nginx with TLS and HTTP/2. The clients
// are of the public SDK for Go, with tokens that live for two minutes, and there are nine EventSources. Backends publish 31 times a
// second through nginx.
//
// Every client keeps a book of the numbers of its channel: nine in ten have a channel with recovery, one in ten has the ticker, which is at most
// once. After each step all clients have to be connected and at the top of their streams. Meanwhile the run asks each node for its
// health and for the overview of the admin interface, scrapes its metrics, reads its log, and runs gyro doctor. Afterwards the query
// engine of Prometheus evaluates the rules of deploy/prometheus/alerts.yml on the scrapes.
//
// The tests run a few clients through short steps. -clients makes the table, which takes 25 minutes; it gives up after -limit:
//
//	go test ./e2e/operator -v -timeout 0 -run TestOperator -clients 3000 -steps rolling,primary
package operator

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

var (
	clients = flag.Int("clients", 0, "clients of TestOperator; 0: it is skipped")
	chosen  = flag.String("steps", "", "steps of TestOperator, with commas between them; empty: all")
	folder  = flag.String("out", "../../.cache/operator", "folder for the table, the scrapes and the logs of TestOperator")
	limit   = flag.Duration("limit", 45*time.Minute, "after this time TestOperator begins no step any more")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(rig.Run(m))
}

func TestOperator(t *testing.T) {
	if *clients == 0 {
		t.Skip("it takes 25 minutes: make operator")
	}
	names := strings.FieldsFunc(*chosen, func(r rune) bool { return r == ',' })
	perform(t, options{clients: *clients, steps: names, out: *folder, limit: *limit})
}

// TestSome runs steps that take a moment, with a few clients.
func TestSome(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	perform(t, options{clients: 40, steps: []string{"failover", "reload", "balancer"}, out: t.TempDir(), limit: 10 * time.Minute})
}
