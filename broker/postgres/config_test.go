package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// TestConfig: wrong configurations are refused, by the name of the field, without the password.
func TestConfig(t *testing.T) {
	for field, edit := range map[string]func(*Config){
		"DSN is missing":         func(c *Config) { c.DSN = "" },
		"DSN does not parse":     func(c *Config) { c.DSN = "postgres://u:hush@h:port/x" },
		"PoolSize":               func(c *Config) { c.PoolSize = 1 },
		"NumShards":              func(c *Config) { c.NumShards = 257 },
		"BatchSize":              func(c *Config) { c.BatchSize = -1 },
		"TablePrefix":            func(c *Config) { c.TablePrefix = "Not; this" },
		"NotifyDSN needs":        func(c *Config) { c.NotifyDSN = "host=h" },
		"NotifyDSN does not":     func(c *Config) { c.UseNotify, c.NotifyDSN = true, "postgres://u:hush@h:port/x" },
		"PollInterval":           func(c *Config) { c.PollInterval = -time.Second },
		"ControlPollInterval":    func(c *Config) { c.ControlPollInterval = 2 * time.Hour },
		"CleanupInterval":        func(c *Config) { c.CleanupInterval = time.Microsecond },
		"PartitionLookaheadDays": func(c *Config) { c.PartitionLookaheadDays = 61 },
		"PartitionRetentionDays": func(c *Config) { c.PartitionRetentionDays = -2 },
		"ControlRetentionDays":   func(c *Config) { c.ControlRetentionDays = -2 },
		"ControlNumShards":       func(c *Config) { c.ControlNumShards = -1 },
		"MapExpiryInterval":      func(c *Config) { c.MapExpiryInterval = -1 },
		"Replicas has 17":        func(c *Config) { c.Replicas = make([]string, 17) },
		"Replicas[1] is empty":   func(c *Config) { c.Replicas = []string{"host=h", ""} },
		"Replicas[0] does not":   func(c *Config) { c.Replicas = []string{"postgres://u:hush@h:port/x"} },
		"FanoutInterval":         func(c *Config) { c.FanoutInterval = time.Millisecond },
		"HistoryMetaTTL":         func(c *Config) { c.HistoryMetaTTL = -1 },
		"IdempotentResultTTL":    func(c *Config) { c.IdempotentResultTTL = -1 },
		"Timeout":                func(c *Config) { c.Timeout = time.Millisecond },
		"StartTimeout":           func(c *Config) { c.StartTimeout = -1 },
	} {
		c := Config{DSN: "postgres://u:hush@127.0.0.1:1/x"}
		edit(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", field, err)
		}
	}
	c, err := Config{DSN: "host=h", TablePrefix: "abc__"}.withDefaults()
	if err != nil || c.TablePrefix != "abc" || c.PoolSize != DefaultPoolSize || c.PartitionRetentionDays != 7 {
		t.Errorf("%+v, %v", c, err)
	}
}

type ignoring struct{}

func (ignoring) HandlePublication(string, broker.PublicationEvent) {}
func (ignoring) HandleJoin(string, *channel.ClientInfo)            {}
func (ignoring) HandleLeave(string, *channel.ClientInfo)           {}
func (ignoring) HandleLoss(func(string) bool)                      {}

// TestUnreachable: Run fails, and tells where, but not the password; calls before and after it fail as well.
func TestUnreachable(t *testing.T) {
	b, err := New(Config{DSN: "postgres://u:hush@127.0.0.1:1/x?sslmode=disable"})
	if err != nil {
		t.Fatal(err)
	}
	publish := func() error {
		_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, broker.PublishOptions{})
		return err
	}
	if err := publish(); err == nil {
		t.Error("publish works before Run")
	}
	if err := b.Run(ignoring{}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1/x") || strings.Contains(err.Error(), "hush") {
		t.Errorf("Run: %v", err)
	}
	if err := publish(); err == nil {
		t.Error("publish works after Run failed")
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
