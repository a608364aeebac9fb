package engine

import (
	"cmp"
	"fmt"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

func (m *maker) nats(key string, c *engines.NATS) (broker.Broker, error) {
	tls, err := c.TLS.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s.tls.%w", key, err)
	}
	of := nats.Config{
		URL: c.URL, Prefix: cmp.Or(c.Prefix, defaultPrefix), TLS: tls,
		DialTimeout: c.DialTimeout, WriteTimeout: c.WriteTimeout, StartTimeout: c.StartTimeout,
		AllowWildcards: c.AllowWildcards, Covers: func(pattern, ch string) bool { return m.routes().channels.Covers(pattern, ch) },
		Raw:    nats.RawMode{Enabled: c.RawMode.Enabled, Prefix: c.RawMode.Prefix, Replacements: c.RawMode.ChannelReplacements},
		Logger: m.log,
	}
	b, err := nats.New(of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	m.remember(Server{Key: key, AddressKey: "url", NATS: &of}, b)
	return b, nil
}
