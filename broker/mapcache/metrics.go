package mapcache

import (
	"sync/atomic"

	"github.com/gyrohq/gyro/broker"
)

type dropReason string

const (
	dropUnsubscribed dropReason = "unsubscribed" // the node has left the channel
	dropCleared      dropReason = "cleared"      // through this node
	dropLoss         dropReason = "loss"         // the broker reported one
	dropHole         dropReason = "hole"         // a change is missing
	dropEpoch        dropReason = "epoch"        // the map has begun anew
	dropBehind       dropReason = "behind"       // changes that the broker has did not come
	dropBack         dropReason = "back"         // the broker's data went back
	dropEvicted      dropReason = "evicted"      // to make room
	dropIdle         dropReason = "idle"         // there were no reads
	dropEmpty        dropReason = "empty"        // the map has no entries
	dropEphemeral    dropReason = "ephemeral"    // the map has no stream
	dropLarge        dropReason = "large"        // it is larger than the cache
	dropForeign      dropReason = "foreign"      // a publication without key
	dropFailed       dropReason = "failed"       // it could not be loaded
)

var dropReasons = [...]dropReason{
	dropUnsubscribed, dropCleared, dropLoss, dropHole, dropEpoch, dropBehind, dropBack, dropEvicted, dropIdle,
	dropEmpty, dropEphemeral, dropLarge, dropForeign, dropFailed,
}

type counters struct {
	hits, misses, loads atomic.Uint64
	drops               [len(dropReasons)]atomic.Uint64
}

func (c *counters) dropped(why dropReason) {
	for i, reason := range dropReasons {
		if reason == why {
			c.drops[i].Add(1)
		}
	}
}

func (c *cache) metrics() []broker.Metric {
	c.mu.Lock()
	channels := len(c.table)
	c.mu.Unlock()
	count := func(name, help string, n *atomic.Uint64) broker.Metric {
		return broker.Metric{Name: "map_cache_" + name, Help: help, Counter: true, Value: float64(n.Load())}
	}
	list := []broker.Metric{
		{Name: "map_cache_channels", Help: "Maps that the cache of maps knows, also those that it does not keep for a reason.", Value: float64(channels)},
		{Name: "map_cache_bytes", Help: "Memory of the cache of maps, as it estimates.", Value: float64(c.bytes.Load())},
		count("hits_total", "Reads of maps that were answered from the cache.", &c.counters.hits),
		count("misses_total", "Reads of maps that the broker answered although there is a cache.", &c.counters.misses),
		count("loads_total", "Loads of a map into the cache.", &c.counters.loads),
	}
	for i, reason := range dropReasons {
		m := count("drops_total", "Maps that the cache did not keep, by reason.", &c.counters.drops[i])
		m.Labels = map[string]string{"reason": string(reason)}
		list = append(list, m)
	}
	return list
}
