package redis_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker/redis"
)

// TestConnecting: while an engine connects to a server that does not answer, other calls do not wait for that.
func TestConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := redis.Shard{Mode: redis.Standalone, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		engine := newEngine(t, redis.Config{Shards: []redis.Shard{silent}, StartTimeout: 24 * time.Hour, Logger: quiet})
		begin, ended := time.Now(), make(chan error, 1)
		go func() { ended <- engine.Connect(t.Context()) }()
		synctest.Wait()
		if _, err := engine.Presence().Presence(t.Context(), "ch"); err == nil {
			t.Error("presence of an engine that is not connected")
		}
		if err := engine.Close(t.Context()); err != nil || !time.Now().Equal(begin) {
			t.Errorf("closed after %v: %v", time.Since(begin), err)
		}
		if err := <-ended; err == nil || time.Since(begin) > time.Hour {
			t.Errorf("the attempt ends after %v: %v", time.Since(begin), err)
		}
	})
}
