package redisstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis"
)

// open connects to a shard. A plain address may be that of a Cluster's node.
func open(ctx context.Context, s *redis.Shard) (rueidis.Client, error) {
	mode := s.Mode
	switch {
	case mode != redis.Detect:
	case s.SentinelMaster != "":
		mode = redis.Sentinel
	case len(s.Addresses) > 1:
		mode = redis.Cluster
	}
	client, err := dial(ctx, s, mode)
	if err != nil || mode != redis.Detect {
		return client, err
	}
	// A server that does not tell is none of a Cluster.
	if info, _ := client.Do(ctx, client.B().Info().Section("cluster").Build()).ToString(); !strings.Contains(info, "cluster_enabled:1") {
		return client, nil
	}
	client.Close()
	return dial(ctx, s, redis.Cluster)
}

func dial(ctx context.Context, s *redis.Shard, mode redis.Mode) (rueidis.Client, error) {
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
			return (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, network, address)
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
