package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config/migrate"
)

var update = flag.Bool("update", false, "write the golden files of checkconfig --from-centrifugo")

const centrifugo = "testdata/centrifugo"

// TestFromCentrifugo compares the reports about three configurations that were written for
// Centrifugo with what they should be: a chat on Redis with Sentinel and a feed with proxies and SSE, with
// which Gyro starts, and an installation for many tenants with JWKS and consumers.
func TestFromCentrifugo(t *testing.T) {
	t.Parallel()
	for file, refused := range map[string]int{"chat.json": 0, "feed.yaml": 0, "tenants.toml": 1} {
		name := strings.TrimSuffix(file, filepath.Ext(file))
		env := variables(t, name+".env")
		text, code := run(t, centrifugo, env, "checkconfig", "-c", file, "--from-centrifugo")
		if code != refused {
			t.Errorf("%s: exit code %d", file, code)
		}
		golden(t, name+".txt", text)
		asJSON, code := run(t, centrifugo, env, "checkconfig", "-c", file, "--from-centrifugo", "--json")
		if code != refused {
			t.Errorf("%s: exit code %d with --json", file, code)
		}
		var report migrate.Report
		if err := json.Unmarshal([]byte(asJSON), &report); err != nil || report.Starts != (refused == 0) {
			t.Fatalf("%s: %v %s", file, err, asJSON)
		}
		for _, f := range report.Findings {
			if f.Key == "" || f.Reason == "" || !strings.Contains(text, f.Key) || !strings.Contains(text, f.Reason) {
				t.Errorf("%s: not in the text: %+v", file, f)
			}
			if f.Kind == migrate.Unknown && (f.Do == "" || f.Where == "") {
				t.Errorf("%s: no advice or no place: %+v", file, f)
			}
		}
		if strings.Contains(text+asJSON, "not-a-real") {
			t.Errorf("%s: a secret is in the report", file)
		}
		// A start refuses the same, and names the keys.
		_, messages, code := outcome(t, command(t, centrifugo, env, "checkconfig", "-c", file))
		if code != refused || strings.HasPrefix(messages, "Error: ") != (refused == 1) {
			t.Errorf("%s: checkconfig: %d %s", file, code, messages)
		}
	}
}

// TestMovedFromCentrifugo: the same three, changed as the reports say, start; what is left
// to say are differences.
func TestMovedFromCentrifugo(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"chat.json", "feed.yaml", "tenants.toml"} {
		moved := filepath.Join("moved", file)
		if out := succeed(t, centrifugo, "checkconfig", "--strict", "-c", moved); out != "" {
			t.Errorf("%s: %s", moved, out)
		}
		var report migrate.Report
		out := succeed(t, centrifugo, "checkconfig", "--strict", "--from-centrifugo", "--json", "-c", moved)
		if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Starts {
			t.Fatalf("%s: %v %s", moved, err, out)
		}
		for _, f := range report.Findings {
			if f.Kind != migrate.Differs {
				t.Errorf("%s: %+v", moved, f)
			}
		}
	}
}

func TestFromCentrifugoExitCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fail(t, dir, "config.json", "checkconfig", "--from-centrifugo")
	write(t, dir, "config.json", `{"client":`)
	fail(t, dir, "not valid JSON", "checkconfig", "--from-centrifugo")
	write(t, dir, "config.json", `{"Client":{},"client":{}}`)
	fail(t, dir, "given twice", "checkconfig", "--from-centrifugo")
	write(t, dir, "config.json", `{"client":{"tokn":{}}}`)
	if out := succeed(t, dir, "checkconfig", "--from-centrifugo"); !strings.Contains(out, "Did you mean client.token?") {
		t.Error(out)
	}
	if out, code := run(t, dir, nil, "checkconfig", "--from-centrifugo", "--strict"); code != 1 || !strings.Contains(out, "client.tokn") {
		t.Errorf("%d %s", code, out)
	}
	write(t, dir, "config.json", `{"client":{"token":{"rsa_public_key":"x"}},"engine":{"type":"redis","redis":{"address":["a"]}}}`)
	out, code := run(t, dir, nil, "checkconfig", "--from-centrifugo")
	for _, want := range []string{"client.token.rsa_public_key  (config.json:1:21)", "engine.redis.address[0]"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("%d, no %s in %s", code, want, out)
		}
	}
	// Variables alone.
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	out, code = run(t, dir, []string{"CENTRIFUGO_ADMIN_ENABLED=true"}, "checkconfig", "--from-centrifugo")
	if code != 1 || !strings.Contains(out, "admin.enabled  (CENTRIFUGO_ADMIN_ENABLED)") {
		t.Errorf("%d %s", code, out)
	}
}

func variables(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(centrifugo, file))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join(centrifugo, name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s is not what is printed now (go test -run FromCentrifugo -update, and read the diff): %v\n%s", file, err, got)
	}
}
