package broker

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/channel"
)

// HealthReporter is implemented by engines that depend on something outside of the
// process. Health may be called from any goroutine and does not block.
type HealthReporter interface {
	// Health has one element per part of the engine that can fail by itself, such as
	// a shard, always in the same order.
	Health() []Health
}

// Health of a part of an engine, found out by what it delivers: every second a
// canary is published, which has to come back the way that publications come.
type Health struct {
	// Part names the part for operators, without secrets: "redis shard 0 (10.0.0.5:6379)".
	Part string
	// Delay is how long the newest canary took to come back.
	Delay time.Duration
	// Err tells why nothing is delivered now, or is nil.
	Err error
}

// PositionReader is a Broker that reads the positions of many streams at a lower
// price than as many calls of History have. It is optional.
type PositionReader interface {
	Broker
	// Positions reads the top positions of the streams of channels, as History with
	// Limit 0 does, where they are written (a copy may be behind). The results are in
	// the order of channels. A broker that is Local reads each position at a moment when
	// every publication up to it has been handed to the EventHandler.
	Positions(ctx context.Context, channels []string) []PositionResult
}

// PositionResult is the position of one stream, unless Err is set.
type PositionResult struct {
	Top channel.StreamPosition
	Err error
}
