package main

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/gyrohq/gyro/server/internal/tools/bench"
)

// TestBench: each scenario against a running server, in both encodings.
func TestBench(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"http_api":{"key":"api-key"},"http_stream":{"enabled":true},"uni_sse":{"enabled":true},
		"client":{"token":{"hmac_secret_key":"token-secret"}},
		"channel":{"without_namespace":{"allow_subscribe_for_client":true,"allow_publish_for_client":true},
		"namespaces":[{"name":"kept","allow_subscribe_for_client":true,"allow_publish_for_client":true,
		"history_size":100,"history_ttl":"60s","force_recovery":true}]}}`)
	p := launch(t, dir, nil, "gyro is running")
	server := []string{
		"--url", "ws://127.0.0.1:" + port + "/connection/websocket", "--api", "http://127.0.0.1:" + port + "/api/",
		"--api-key", "api-key", "--timeout", "60s", "--json", "--token-hmac-secret", "token-secret",
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		server = append(server, "--pid", strconv.Itoa(p.cmd.Process.Pid))
	}
	report := func(code int, args ...string) (rep bench.Report) {
		t.Helper()
		out, got := run(t, dir, nil, append(append([]string{"bench"}, args...), server...)...)
		if err := json.Unmarshal([]byte(out), &rep); err != nil || got != code || rep.Scenario != args[0] {
			t.Errorf("%q: exit code %d, %v: %s", args, got, err, out)
		}
		return rep
	}
	for _, proto := range []string{"json", "protobuf"} {
		if rep := report(0, "fanout", "--sub", "5", "--pub", "2", "--msgs", "10", "--proto", proto); rep.Encoding != proto || rep.Deliver.Received != 100 {
			t.Errorf("%+v", rep)
		}
		if rep := report(0, "idle", "--conns", "5", "--duration", "10ms", "--proto", proto); rep.Idle.Connections != 5 {
			t.Errorf("%+v", rep)
		}
		if rep := report(0, "storm", "--conns", "5", "--channel", "kept:x", "--proto", proto); rep.Storm.Recovered != 5 {
			t.Errorf("%+v", rep)
		}
		if rep := report(0, "publish", "--duration", "20ms", "--rate", "1000", "--proto", proto); rep.Publish.Publications == 0 {
			t.Errorf("%+v", rep)
		}
	}
	server[1] = "http://127.0.0.1:" + port + "/connection/http_stream"
	for _, proto := range []string{"json", "protobuf"} {
		rep := report(0, "emulation", "--conns", "3", "--msgs", "20", "--proto", proto)
		if e := rep.Emulation; e == nil || e.Requests != 60 || e.Replies != 60 || e.Lost != 0 || e.Latency.Count != 60 {
			t.Errorf("%+v", rep)
		}
	}
	server[1] = "http://127.0.0.1:" + port + "/connection/uni_sse"
	if rep := report(0, "fanout", "--transport", "uni_sse", "--sub", "5", "--msgs", "10", "--via", "api"); rep.Transport != "uni_sse" || rep.Deliver.Received != 50 {
		t.Errorf("%+v", rep)
	}
	server[1] = "ws://127.0.0.1:" + port + "/connection/websocket"
	if rep := report(1, "storm", "--conns", "5", "--channel", "lossy"); rep.OK || rep.Error == "" {
		t.Errorf("%+v", rep)
	}
	if rep := report(1, "publish", "--channel", "no:such"); rep.Error == "" {
		t.Errorf("%+v", rep)
	}
}

// TestBenchFlags: wrong ones by their name.
func TestBenchFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct {
		want string
		args []string
	}{
		{`unknown command "nonsense"`, []string{"nonsense"}},
		{"unknown flag: --subs", []string{"fanout", "--subs", "1"}},
		{`"many" for "--sub"`, []string{"fanout", "--sub", "many"}},
		{"unknown command", []string{"idle", "more"}},
		{`proto: "xml" is neither json nor protobuf`, []string{"fanout", "--proto", "xml"}},
		{`via: "pigeon" is neither client nor api`, []string{"storm", "--via", "pigeon"}},
		{`header: "x" is not`, []string{"idle", "--header", "x"}},
		{"token and token-hmac-secret exclude each other", []string{"idle", "--token", "a", "--token-hmac-secret", "b"}},
		{"timeout: 0s is not positive", []string{"publish", "--timeout", "0"}},
		{"sub: 0 is not from 1", []string{"fanout", "--sub", "0"}},
		{`url: "http://x" is no ws://`, []string{"fanout", "--url", "http://x"}},
		{`url: "ws://x" is no http://`, []string{"emulation", "--url", "ws://x"}},
		{`emulation: "x" is no http://`, []string{"emulation", "--emulation", "x"}},
		{`transport: "carrier" is none of websocket`, []string{"idle", "--transport", "carrier"}},
		{"proto: uni_sse has no Protobuf", []string{"idle", "--transport", "uni_sse", "--proto", "protobuf"}},
		{"emulation: clients of websocket send no requests", []string{"idle", "--emulation", "http://x"}},
		{"via: clients of uni_sse cannot publish", []string{"fanout", "--transport", "uni_sse"}},
		{"transport: no client connects", []string{"publish", "--transport", "sse"}},
		{"size: 10 is not from 96", []string{"publish", "--size", "10"}},
	} {
		misuse(t, dir, test.want, append([]string{"bench"}, test.args...)...)
	}
	succeed(t, dir, "bench")
}
