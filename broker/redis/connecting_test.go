package redis_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
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

// handshake has the answers to INFO, HELLO, PING and COMMAND INFO.
var handshake = []string{"$0\r\n\r\n", "%1\r\n$5\r\nproto\r\n:3\r\n", "+PONG\r\n", "*1\r\n*1\r\n$6\r\nxrange\r\n"}

// TestCloseEndsRun: a broker that is closed while it cannot connect for PUB/SUB tries no further.
func TestCloseEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		shard := redis.Shard{Mode: redis.Standalone, Dial: func(context.Context, string, string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				return nil, net.ErrClosed
			}
			near, far := net.Pipe()
			go func() {
				buf := make([]byte, 1024)
				for _, answer := range handshake {
					if _, err := far.Read(buf); err != nil {
						t.Error(err)
					}
					_, _ = far.Write([]byte(answer))
				}
				_, _ = io.Copy(io.Discard, far)
			}()
			return near, nil
		}}
		b := newEngine(t, redis.Config{Shards: []redis.Shard{shard}, StartTimeout: time.Hour, Logger: quiet}).Broker()
		ended := make(chan error, 1)
		go func() { ended <- b.Run(nil) }()
		time.Sleep(time.Minute)
		begin := time.Now()
		if err := b.Close(t.Context()); err != nil || dials.Load() < 3 {
			t.Fatalf("%v after %d attempts", err, dials.Load())
		}
		if err := <-ended; err == nil || time.Since(begin) > 3*time.Second {
			t.Errorf("Run ends after %v: %v", time.Since(begin), err)
		}
	})
}

// TestSilentSoon: a server that completes the handshake and answers nothing more does not hold up Connect.
func TestSilentSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shard := redis.Shard{Mode: redis.Standalone, IOTimeout: 4 * time.Second, Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				buf := make([]byte, 1024)
				for _, answer := range handshake[:2] {
					if _, err := far.Read(buf); err != nil {
						t.Error(err)
					}
					_, _ = far.Write([]byte(answer))
				}
				_, _ = io.Copy(io.Discard, far)
			}()
			return near, nil
		}}
		engine, begin := newEngine(t, redis.Config{Shards: []redis.Shard{shard}, Logger: quiet}), time.Now()
		if err := engine.Connect(t.Context()); err == nil || time.Since(begin) > 10*time.Second {
			t.Errorf("connected after %v: %v", time.Since(begin), err)
		}
	})
}
