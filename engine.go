package gyro

import (
	"fmt"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/engines"
)

// Engine is a backend as a whole: memory.Broker, redis.Engine, nats.Broker, or another.
type Engine interface {
	// Broker returns the broker, always the same. Its traits (broker.Traits) have Presence and Control of the engine.
	Broker() broker.Broker
}

// setEngines returns an error that names the fields that contradict each other.
func (c *Config) setEngines() error {
	if c.Engine == nil {
		if c.Broker == nil {
			c.Broker = memory.New(memory.Config{})
		}
	} else if err := c.useEngine(); err != nil {
		return err
	}
	traits := c.Broker.Describe()
	switch {
	case c.Presence != nil:
	case traits.Presence != nil:
		c.Presence = traits.Presence
	case traits.Local:
		c.Presence = memory.NewPresence(memory.Config{})
	default:
		c.Presence = engines.NoPresence{}
	}
	return nil
}

// useEngine takes the parts that are not set from the Engine.
func (c *Config) useEngine() error {
	whole := c.Engine.Broker()
	if whole == nil {
		return fmt.Errorf("gyro: Engine (%T) has no broker", c.Engine)
	}
	if c.Broker == nil {
		c.Broker = whole
		return nil
	}
	if c.Presence != nil {
		return fmt.Errorf("gyro: Engine (%T) is not used, as Broker and Presence are set: leave one of the three out", c.Engine)
	}
	if c.Presence = whole.Describe().Presence; c.Presence == nil {
		return fmt.Errorf("gyro: Engine (%T) is not used, as Broker is set and the engine has no presence manager: leave one of the two out", c.Engine)
	}
	return nil
}
