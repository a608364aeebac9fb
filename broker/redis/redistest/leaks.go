package redistest

import "go.uber.org/goleak"

// Lingering has goleak pass over the goroutines that a closed client of a Redis Cluster leaves behind for a few
// seconds: one that waits before it reads the slots again, and one that waits before it closes the connections
// of nodes that have left. Both end by themselves. More options may be given with them.
func Lingering(more ...goleak.Option) []goleak.Option {
	return append(more,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
