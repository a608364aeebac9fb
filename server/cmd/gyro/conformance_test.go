package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformance: the report, and the exit codes.
func TestConformance(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"http_api":{"key":"api-key"},
		"client":{"token":{"hmac_secret_key":"token-secret"}},"channel":{"namespaces":[{"name":"kept","allow_subscribe_for_client":true,
		"allow_publish_for_subscriber":true,"history_size":10,"history_ttl":"60s","force_recovery":true}]}}`)
	launch(t, dir, nil, "gyro is running")
	judge := func(code int, args ...string) string {
		t.Helper()
		out, messages, got := outcome(t, command(t, dir, nil, append([]string{"conformance", "--user", "ann", "--timeout", "60s"}, args...)...))
		if got != code {
			t.Errorf("%q: exit code %d, expected %d: %s%s", args, got, code, out, messages)
		}
		return out + messages
	}
	url := "ws://127.0.0.1:" + port + "/connection/websocket"
	with := []string{url, "-c", filepath.Join(dir, "config.json"), "--channel", "kept:"}
	text := judge(0, append(with, "--run", "^(recovery|deltas)", "--verbose", "--seed", "7")...)
	for _, want := range []string{
		"passed  recovery.missed  websocket json\n", "passed  recovery.missed  websocket protobuf\n", "skipped deltas.live  websocket json: no channel of --channel grants: ", "; seed 7\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	dec := json.NewDecoder(strings.NewReader(judge(0, append(with, "--run", "^tokens", "--json", "--proto", "json", "--quiet")...)))
	lines := 0
	for ; dec.More(); lines++ {
		var m map[string]any
		if err := dec.Decode(&m); err != nil || m["status"] == nil && m["passed"] == nil {
			t.Fatalf("%v: %v", err, m)
		}
	}
	if lines < 5 {
		t.Errorf("%d lines of JSON", lines)
	}
	if text := judge(0, "--list"); !strings.Contains(text, "protocol-rules.md#recovery") {
		t.Errorf("the list is %s", text)
	}
	if text := judge(1, url); !strings.Contains(text, "cannot be judged") || !strings.Contains(text, "3501") {
		t.Errorf("without a token: %s", text)
	}
	for _, args := range [][]string{{"--proto", "xml"}, {"--run", "("}, {"--steps", "0"}, {"http://"}, {"ftp://localhost/"}, {"--token", "t", "--token-hmac-secret", "s"}, append(with, "--run", "^no-such-check$")} {
		judge(2, args...)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte("token-secret"), []byte("other-secret"), 1)
	write(t, dir, "other.json", string(config))
	if text := judge(1, url, "-c", filepath.Join(dir, "other.json")); !strings.Contains(text, "3500") {
		t.Errorf("with another secret: %s", text)
	}
}
