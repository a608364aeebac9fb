package redistest

import "go.uber.org/goleak"

// Lingering makes goleak pass over goroutines that a closed client of a Redis Cluster leaves behind for a few seconds.
func Lingering(more ...goleak.Option) []goleak.Option {
	return append(more,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
