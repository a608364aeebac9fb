package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
)

// TestEvictedPresence: Redis evicts a part of a channel's presence. A client that is there is there again when its node
// renews it, and one whose node has died goes at the end of its life.
func TestEvictedPresence(t *testing.T) {
	t.Parallel()
	const lives, userLives = "gyro.presence.expire.ch", "gyro.presence.user.expire.ch"
	server := redistest.Standalone(t, redistest.Options{})
	for evicted, keys := range map[string][]string{
		"data": {"gyro.presence.data.ch"}, "lives": {lives}, "users": {"gyro.presence.user.clients.ch"}, "lives of users": {userLives},
		"all lives": {lives, userLives}, "data and lives of users": {"gyro.presence.data.ch", userLives},
	} {
		t.Run(evicted, func(t *testing.T) {
			server.Do("FLUSHALL")
			engine := newEngine(t, redis.Config{Shards: []redis.Shard{standalone(server)}, PresenceUserMapping: true, PresenceTTL: time.Hour})
			if err := engine.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer engine.Close(t.Context())
			p := engine.Presence()
			add := func(client, user string) {
				if err := p.Add(t.Context(), "ch", &channel.ClientInfo{Client: client, User: user}); err != nil {
					t.Fatal(err)
				}
			}
			present := func(want string, stats broker.PresenceStats) {
				t.Helper()
				clients, err := p.Presence(t.Context(), "ch")
				if _, ok := clients[want]; err != nil || len(clients) != stats.Clients || want != "" && !ok {
					t.Errorf("%v, %v are present", clients, err)
				}
				if got, err := p.Stats(t.Context(), "ch"); err != nil || got != stats {
					t.Errorf("the counts are %v, %v", got, err)
				}
			}
			add("ghost", "gone")
			add("c", "u")
			server.Do(append([]string{"DEL"}, keys...)...)
			add("c", "u")
			// The life of the ghost is over, if it has one.
			server.Do("ZADD", lives, "XX", "1", "ghost")
			server.Do("ZADD", userLives, "XX", "1", "gone")
			present("c", broker.PresenceStats{Clients: 1, Users: 1})
			if err := p.Remove(t.Context(), "ch", "c", "u"); err != nil {
				t.Fatal(err)
			}
			server.Do("ZADD", userLives, "XX", "1", "u")
			present("", broker.PresenceStats{})
			for _, key := range strings.Fields(server.Do("KEYS", "gyro.presence.*")) {
				t.Errorf("%s is left", key)
			}
		})
	}
}
