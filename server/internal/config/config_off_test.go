package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNegativeIsOff: these keys have a default, which 0 stands for, so that a negative value switches them off.
func TestNegativeIsOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	text := `{"client":{"refresh_proxy_grace":"-1s"},"rpc":{"proxy":{"breaker":{"failures":-1}}},"uni_sse":{"retry_max":"-1s"},
		"consumers":[{"name":"c1","type":"kafka","retry_time":"-1s"}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(Options{File: file})
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.Client.RefreshProxyGrace >= 0 || c.RPC.Proxy.Breaker.Failures >= 0 || c.UniSSE.RetryMax >= 0 || c.Consumers[0].RetryTime >= 0 {
		t.Errorf("%v, %d, %v, %v", c.Client.RefreshProxyGrace, c.RPC.Proxy.Breaker.Failures, c.UniSSE.RetryMax, c.Consumers[0].RetryTime)
	}
}
