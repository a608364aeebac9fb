// Package services connects to Redis, NATS and PostgreSQL for other uses than engines, and says which option is to blame
// if that fails.
package services

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis"
)

// Redis connects to a shard. A plain address may be a node of a Cluster. If an option is to blame for an error, it is an
// *OptionError; addressKey is the option with the addresses.
func Redis(ctx context.Context, s *redis.Shard, addressKey string) (rueidis.Client, error) {
	client, err := detect(ctx, s)
	if err != nil {
		return nil, Blame(redisOption(s, addressKey, err), err)
	}
	return client, nil
}

func detect(ctx context.Context, s *redis.Shard) (rueidis.Client, error) {
	mode := s.Mode
	switch {
	case mode != redis.Detect:
	case s.SentinelMaster != "":
		mode = redis.Sentinel
	case len(s.Addresses) > 1:
		mode = redis.Cluster
	}
	client, err := openRedis(ctx, s, mode)
	if err != nil || mode != redis.Detect {
		return client, err
	}
	if info, _ := client.Do(ctx, client.B().Info().Section("cluster").Build()).ToString(); !strings.Contains(info, "cluster_enabled:1") {
		return client, nil
	}
	client.Close()
	return openRedis(ctx, s, redis.Cluster)
}

func redisOption(s *redis.Shard, addressKey string, err error) string {
	if option := TLSOption("tls", err); option != "" {
		return option
	}
	switch text := err.Error(); {
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "NOAUTH"):
		return "password"
	case strings.Contains(text, "No such master"):
		return "sentinel_master_name"
	}
	return cmp.Or(CutOff(addressKey, s.TLS != nil, err), addressKey)
}

func openRedis(ctx context.Context, s *redis.Shard, mode redis.Mode) (rueidis.Client, error) {
	o := rueidis.ClientOption{
		InitAddress: s.Addresses, Username: s.User, Password: s.Password, ClientName: s.ClientName, SelectDB: s.DB,
		TLSConfig: s.TLS, AlwaysRESP2: s.ForceRESP2, DisableCache: true, DisableRetry: true,
		ClientSetInfo: rueidis.DisableClientSetInfo, ForceSingleClient: mode != redis.Cluster && mode != redis.Sentinel,
		ConnWriteTimeout: cmp.Or(s.IOTimeout, redis.DefaultIOTimeout),
	}
	o.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
		network := "tcp"
		if path, ok := strings.CutPrefix(address, "unix://"); ok {
			network, address = "unix", path
		}
		if secure != nil {
			conn, err := (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, network, address)
			if err != nil && secure == s.SentinelTLS {
				if option := TLSOption("sentinel_tls", err); option != "" {
					err = Blame(option, err)
				}
			}
			return conn, err
		}
		return d.DialContext(ctx, network, address)
	}
	o.Dialer.Timeout = cmp.Or(s.ConnectTimeout, redis.DefaultConnectTimeout)
	if len(o.InitAddress) == 0 {
		o.InitAddress = []string{redis.DefaultAddress}
	}
	if mode == redis.Sentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: s.SentinelMaster, Username: s.SentinelUser, Password: s.SentinelPassword,
			ClientName: s.SentinelClientName, TLSConfig: s.SentinelTLS,
		}
		o.Sentinel.Dialer = o.Dialer
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}
