package redistest

import "go.uber.org/goleak"

// Lingering has goleak pass over the goroutines that a closed client of a Redis Cluster leaves behind for a few seconds:
// they wait before they read the slots again, or close the connections of nodes that have left.
func Lingering(more ...goleak.Option) []goleak.Option {
	return append(more,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
