package client_test

import (
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/httplink"
)

// The fixtures with several transports.
func init() {
	client.FixtureFallback = func(s client.FixtureStore, transports ...client.Transport) client.Transport {
		return httplink.Fallback(s, transports...)
	}
}
