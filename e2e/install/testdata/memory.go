package main

import (
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
)

func engine([]string) (broker.Broker, broker.PresenceManager, error) {
	return memory.New(memory.Config{}), memory.NewPresence(memory.Config{}), nil
}
