//go:build linux

// Package cluster measures what a cluster of many real gyro processes costs, and tests that it answers: what the nodes tell each
// other while nothing happens, calls that all nodes answer, commands, faults of a node, and a channel with subscribers everywhere.
//
// The tests run a few nodes and compare counts, not times. -sizes makes the table of docs/scaling.md instead, for several
// numbers of nodes:
//
//	go test ./e2e/cluster -v
//	go test ./e2e/cluster -v -timeout 0 -run TestTable -sizes 4,13,26,52 -engines redis,nats -shards 5
//
// Each node has one processor (GOMAXPROCS=1).
package cluster

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

var (
	sizes   = flag.String("sizes", "", "numbers of nodes of TestTable, with commas between them; empty: it is skipped")
	engines = flag.String("engines", "redis,nats", "engines of TestTable: redis, nats, redis-cluster, redis-sharded")
	shards  = flag.Int("shards", 5, "Redis servers of TestTable")
	parts   = flag.String("parts", "idle,fanout,calls,commands,storm,suspended,killed,rolling", "what TestTable measures")
	window  = flag.Duration("window", 30*time.Second, "how long TestTable looks at nodes while nothing happens")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(rig.Run(m))
}
