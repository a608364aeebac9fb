package version

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repository = "../../.."

// TestRepository: all places of the repository have one version, that of the next release.
func TestRepository(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "deploy/helm/gyro/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	v := chart.pattern.FindSubmatch(text)
	if v == nil {
		t.Fatal("the chart has no version")
	}
	if err := Check(repository, string(v[1])); err != nil {
		t.Error(err)
	}
}

// copied has the files of the repository that have the version.
func copied(t *testing.T) string {
	t.Helper()
	list, err := files(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range list {
		text, err := os.ReadFile(filepath.Join(repository, f.path))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, f.path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSet: what Set writes is what Check accepts, for versions with an addition too; and everything that has the version of
// the repository is changed.
func TestSet(t *testing.T) {
	dir := copied(t)
	for _, v := range []string{"1.66.55-rc.1", "1.66.55"} {
		if err := Set(dir, v); err != nil {
			t.Fatal(err)
		}
		if err := Check(dir, v); err != nil {
			t.Error(err)
		}
	}
	list, err := files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		before, err := os.ReadFile(filepath.Join(repository, f.path))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(dir, f.path))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(after), "\n") {
			old := strings.Split(string(before), "\n")[i]
			if line == old && strings.Contains(line, "github.com/gyrohq/gyro ") {
				t.Errorf("%s:%d is still %s", f.path, i+1, line)
			}
			if line != old && !strings.Contains(line, "1.66.55") {
				t.Errorf("%s:%d: %s became %s", f.path, i+1, old, line)
			}
		}
	}
}

// TestCheck: every place that has another version is named.
func TestCheck(t *testing.T) {
	dir := copied(t)
	if err := Set(dir, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	for file, change := range map[string][2]string{
		"go.work":                       {"broker/nats v1.2.3", "broker/nats v1.2.2"},
		"broker/redis/go.mod":           {"gyro v1.2.3", "gyro v1.2.4"},
		"deploy/helm/gyro/Chart.yaml":   {"appVersion: 1.2.3-dev", "appVersion: 1.2.3"},
		"clients/js/package.json":       {`"version": "1.2.3"`, `"version": "1.2.3-rc.1"`},
		"clients/js/package-lock.json":  {`"version": "1.2.3"`, `"version": "0.1.0"`},
		"clients/python/pyproject.toml": {`version = "1.2.3"`, `version = "1.2.4"`},
		"server/cmd/gyro/main.go":       {`"1.2.3-dev"`, `"1.2.3"`},
	} {
		path := filepath.Join(dir, file)
		right, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wrong := strings.Replace(string(right), change[0], change[1], 1)
		if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Check(dir, "1.2.3"); err == nil || !strings.HasPrefix(err.Error(), file+":") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", file, err)
		}
		if err := os.WriteFile(path, right, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "clients/js/package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir, "1.2.3"); err == nil || !strings.HasPrefix(err.Error(), "clients/js/package.json has no version") {
		t.Errorf("a package without a version: %v", err)
	}
}

func TestParse(t *testing.T) {
	for tag, want := range map[string]string{"v1.2.3": "1.2.3", "v0.2.0-rc.1": "0.2.0-rc.1", "1.2.3": "", "v1.2": "", "v1.2.3+x": "", "v2.0.0": "", "v01.2.3": "", "": ""} {
		if got, err := Parse(tag); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", tag, got, err)
		}
	}
}

// TestTags: each module that users install has a tag.
func TestTags(t *testing.T) {
	got, err := Tags(repository, "1.2.3")
	want := []string{
		"broker/nats/v1.2.3", "broker/postgres/v1.2.3", "broker/redis/v1.2.3", "metrics/v1.2.3", "server/v1.2.3",
		"transport/webtransport/v1.2.3", "v1.2.3",
	}
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
}
