package address

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gyrohq/gyro/broker/redis"
)

func TestParse(t *testing.T) {
	one := &tls.Config{MinVersion: tls.VersionTLS12}
	for address, want := range map[string]redis.Shard{
		"localhost:6379":            {Addresses: []string{"localhost:6379"}},
		"[::1]:6380":                {Addresses: []string{"[::1]:6380"}},
		"redis://host":              {Addresses: []string{"host:6379"}},
		"redis://[::1]":             {Addresses: []string{"[::1]:6379"}},
		"tcp://host:1/":             {Addresses: []string{"host:1"}},
		"redis://u:p%40@host:1/3":   {Addresses: []string{"host:1"}, User: "u", Password: "p@", DB: 3},
		"redis://:p@host:1":         {Addresses: []string{"host:1"}, Password: "p"},
		"rediss://host:1":           {Addresses: []string{"host:1"}, TLS: one},
		"redis://h:1?tls_enabled=1": {Addresses: []string{"h:1"}, TLS: one},
		"unix:///run/redis.sock":    {Addresses: []string{"unix:///run/redis.sock"}, Mode: redis.Standalone},
		"redis+cluster://a:1?addr=b:2&addr=c:3": {
			Addresses: []string{"a:1", "b:2", "c:3"}, Mode: redis.Cluster},
		"redis://a:1?sentinel_master_name=m": {Addresses: []string{"a:1"}, Mode: redis.Sentinel, SentinelMaster: "m"},
		"rediss+sentinel://a:1?sentinel_master_name=m&sentinel_user=su&sentinel_password=sp&sentinel_tls_enabled=true": {
			Addresses: []string{"a:1"}, Mode: redis.Sentinel, SentinelMaster: "m", SentinelUser: "su", SentinelPassword: "sp",
			TLS: one, SentinelTLS: one},
		"redis://a:1?connect_timeout=2s&io_timeout=300ms&force_resp2=true&replica_client_enabled=true": {
			Addresses: []string{"a:1"}, ConnectTimeout: 2 * time.Second, IOTimeout: 300 * time.Millisecond,
			ForceRESP2: true, ReplicaReads: true},
	} {
		got, err := Parse(address, redis.Shard{})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(tls.Config{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
	}
}

func TestParseBase(t *testing.T) {
	own := &tls.Config{ServerName: "own"}
	base := redis.Shard{Addresses: []string{"x:1"}, Mode: redis.Cluster, User: "u", Password: "p", DB: 4, TLS: own, IOTimeout: time.Minute}
	got, err := Parse("rediss://h:1?io_timeout=1s", base)
	if err != nil {
		t.Fatal(err)
	}
	want := redis.Shard{Addresses: []string{"h:1"}, User: "u", Password: "p", DB: 4, TLS: own, IOTimeout: time.Second}
	if got.TLS != own {
		t.Error("the base's TLS is gone")
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(tls.Config{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	for address, mention := range map[string]string{
		"":                                      "host:port",
		"host":                                  "host:port",
		"host:0":                                "65535",
		"host:redis":                            "65535",
		"u:secret@host:1":                       "host:port",
		"http://u:secret@h:1":                   "http",
		"redis://u:secret@h:70000":              "65535",
		"redis://u:secret@h:1/x":                "database",
		"redis://u:secret@h:1/-1":               "database",
		"redis://u:secret@h:1?io_timeout=4":     "io_timeout",
		"redis://u:secret@h:1?force_resp2=perh": "force_resp2",
		"redis://u:secret@h:1?tls_enabled=x":    "tls_enabled",
		"redis://u:secret@h:1?no_such=x":        "no_such",
		"redis://u:secret@h:1?addr=b":           "addr",
		"redis://u:secret@h:1#f":                "fragment",
		"redis://u:sec%ret@h:1":                 "URL",
		"redis://u:secret@h:1?%zz":              "query",
		"unix://u:secret@h/path":                "unix",
	} {
		_, err := Parse(address, redis.Shard{})
		if err == nil || !strings.Contains(err.Error(), mention) || strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: error %v, want one that tells of %s and no secret", address, err, mention)
		}
	}
	for list, ok := range map[string]bool{"a:1": true, "a:1, b:2": true, "a:1,": false, "": false, "redis://a:1": false} {
		if _, err := ParseList(list); (err == nil) != ok {
			t.Errorf("list %q: %v", list, err)
		}
	}
}

// FuzzParse checks that what is accepted makes a shard with addresses, and
// that no error shows a password.
func FuzzParse(f *testing.F) {
	f.Add("redis://u:QQQQQQQQ@h:1/3?addr=b:2&io_timeout=1s")
	f.Add("rediss+sentinel://h?sentinel_master_name=m&sentinel_password=QQQQQQQQ")
	f.Add("unix:///path")
	f.Add("[::1]:6379")
	f.Fuzz(func(t *testing.T, address string) {
		s, err := Parse(address, redis.Shard{})
		if err == nil && len(s.Addresses) == 0 {
			t.Fatal("no address and no error")
		}
		secret := "://u:QQQQQQQQ@"
		scheme, rest, found := strings.Cut(address, "://")
		if !found || strings.Contains(rest, "QQQQQQQQ") || strings.Contains(scheme, "QQQQQQQQ") {
			return
		}
		if _, err := Parse(scheme+secret+rest, redis.Shard{}); err != nil && strings.Contains(err.Error(), "QQQQQQQQ") {
			t.Fatalf("the error shows the password: %v", err)
		}
	})
}
