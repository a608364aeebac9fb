// Package address reads the addresses of Redis in configurations, and spreads names over them.
package address

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

// Parse reads host:port, or a URL with the scheme redis, rediss (TLS), redis+sentinel, rediss+sentinel, redis+cluster,
// rediss+cluster, tcp or unix. It overrides fields of base, whose Addresses and Mode do not count. A URL with TLS uses
// base.TLS, or TLS 1.2 and later if that is nil. Errors name the key and never show a password.
func Parse(address string, base redis.Shard) (redis.Shard, error) {
	s := shard(base)
	s.Addresses, s.Mode = nil, redis.Detect
	err := s.parse(address)
	return redis.Shard(s), err
}

type shard redis.Shard

func (s *shard) parse(address string) error {
	if !strings.Contains(address, "://") {
		if err := servers.CheckAddress(address); err != nil {
			return err
		}
		s.Addresses = []string{address}
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("address is not a URL that can be read") // err shows the URL
	}
	if u.Fragment != "" || u.Opaque != "" {
		return fmt.Errorf("address with scheme %s: neither a fragment nor an opaque part is known", u.Scheme)
	}
	if err := s.setScheme(u); err != nil {
		return err
	}
	if u.User != nil {
		if name := u.User.Username(); name != "" {
			s.User = name
		}
		if password, ok := u.User.Password(); ok {
			s.Password = password
		}
	}
	return s.setQuery(u)
}

// ParseList reads the comma separated host:port of Sentinels or of Cluster nodes.
func ParseList(list string) ([]string, error) {
	var addresses []string
	for address := range strings.SplitSeq(list, ",") {
		address = strings.TrimSpace(address)
		if strings.Contains(address, "/") || strings.Contains(address, "@") {
			return nil, errors.New("address must be host:port, and a URL was given")
		}
		if err := servers.CheckAddress(address); err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func (s *shard) setScheme(u *url.URL) error {
	scheme, mode, _ := strings.Cut(u.Scheme, "+")
	switch u.Scheme {
	case "redis", "rediss", "tcp":
	case "unix":
		if u.Path == "" || u.Host != "" {
			return errors.New("address with scheme unix needs a path: unix:///path/of/socket")
		}
		s.Addresses, s.Mode = []string{"unix://" + u.Path}, redis.Standalone
		return nil
	case "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
		s.Mode = redis.Mode(mode)
	default:
		return fmt.Errorf("address has the unknown scheme %q", u.Scheme)
	}
	if scheme == "rediss" {
		s.TLS = cmp.Or(s.TLS, defaultTLS())
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	if err := servers.CheckAddress(host); err != nil {
		return err
	}
	s.Addresses = []string{host}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return errors.New("address: the path has to be the number of a database")
		}
		s.DB = n
	}
	return nil
}

func (s *shard) setQuery(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("address: the query cannot be read")
	}
	for key, values := range query {
		if key == "addr" {
			for _, address := range values {
				if err := servers.CheckAddress(address); err != nil {
					return fmt.Errorf("address: addr: %w", err)
				}
				s.Addresses = append(s.Addresses, address)
			}
			continue
		}
		if err := s.setOption(key, values[len(values)-1]); err != nil {
			return fmt.Errorf("address: %w", err)
		}
	}
	if s.SentinelMaster != "" && s.Mode == redis.Detect {
		s.Mode = redis.Sentinel
	}
	return nil
}

func (s *shard) setOption(key, value string) error {
	switch key {
	case "sentinel_master_name":
		s.SentinelMaster = value
	case "sentinel_user":
		s.SentinelUser = value
	case "sentinel_password":
		s.SentinelPassword = value
	case "connect_timeout":
		return setDuration(&s.ConnectTimeout, key, value)
	case "io_timeout":
		return setDuration(&s.IOTimeout, key, value)
	case "force_resp2":
		return setBool(&s.ForceRESP2, key, value)
	case "replica_client_enabled":
		return setBool(&s.ReplicaReads, key, value)
	case "tls_enabled":
		return setTLS(&s.TLS, key, value)
	case "sentinel_tls_enabled":
		return setTLS(&s.SentinelTLS, key, value)
	default:
		return fmt.Errorf("unknown option %q", key)
	}
	return nil
}

func setDuration(to *time.Duration, key, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return fmt.Errorf("%s is not a duration such as 1s: %q", key, value)
	}
	*to = d
	return nil
}

func setBool(to *bool, key, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%s is neither true nor false: %q", key, value)
	}
	*to = on
	return nil
}

func setTLS(to **tls.Config, key, value string) error {
	var on bool
	if err := setBool(&on, key, value); err != nil {
		return err
	}
	if on {
		*to = cmp.Or(*to, defaultTLS())
	} else {
		*to = nil
	}
	return nil
}

func defaultTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// ShardOf returns which of n shards, from 0 on, has the channel of a name. With another n, as few names as possible
// move.
func ShardOf(name string, n int) int { return format.Jump(format.Hash(name), n) }
