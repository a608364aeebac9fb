package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gyrohq/gyro/tools/release/build"
)

const repository = "../.."

// TestChart: the chart of a release has its version, and is whole.
func TestChart(t *testing.T) {
	r := release{tree: repository, out: t.TempDir(), version: "1.2.3-rc.1", time: time.Unix(1, 0), progress: io.Discard}
	if err := r.chart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(r.out, "gyro-chart_1.2.3-rc.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
	var meta map[string]any
	if err := yaml.Unmarshal(files["gyro/Chart.yaml"], &meta); err != nil {
		t.Fatal(err)
	}
	if meta["version"] != "1.2.3-rc.1" || meta["appVersion"] != "1.2.3-rc.1" || meta["name"] != "gyro" || meta["kubeVersion"] == nil {
		t.Errorf("%v", meta)
	}
	for _, name := range []string{"values.yaml", "templates/gyro.yaml", "templates/_helpers.tpl", "templates/NOTES.txt"} {
		want, err := os.ReadFile(filepath.Join(repository, "deploy/helm/gyro", name))
		if err != nil || !bytes.Equal(files["gyro/"+name], want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFormula: there is one only if there are the archives that it names.
func TestFormula(t *testing.T) {
	for _, all := range []bool{false, true} {
		r := release{tree: repository, out: t.TempDir(), version: "1.2.3", time: time.Unix(1, 0), progress: io.Discard}
		for _, target := range build.Targets() {
			if all || target.OS != "darwin" {
				r.targets = append(r.targets, target)
				if err := r.archive(target, []byte(target.String())); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := r.formula(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(r.out, "gyro.rb"))
		if (err == nil) != all {
			t.Fatal(all, err)
		}
		if !all {
			continue
		}
		sum, err := r.sum("gyro_1.2.3_darwin_arm64.tar.gz")
		want := `/releases/download/v1.2.3/gyro_1.2.3_darwin_arm64.tar.gz"` + "\n      sha256 \"" + sum + `"`
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

func TestSource(t *testing.T) {
	r := release{tree: repository}
	if err := r.source(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.commit) != 40 || r.time.IsZero() || r.version == "" || strings.HasPrefix(r.version, "v") {
		t.Errorf("%+v", r)
	}
	r = release{tree: repository, version: "v2.0.0"}
	if err := r.source(t.Context()); err != nil || r.version != "2.0.0" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestErrors(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"plan9/amd64":          {"-targets", "linux/amd64,plan9/amd64"},
		"not empty":            {"-tree", repository, "-out", full},
		`"more"`:               {"more"},
		"usage":                {"push", "file"},
		"usage: release image": {"image"},
		"linux/sparc":          {"image", "-arch", "sparc", "file"},
		"absent..HEAD":         {"notes", "-tree", repository, "-from", "absent"},
		"usage: release ver":   {"verify"},
		"usage: release v":     {"publish", "v1.2.3"},
		`"1.2.3" is no`:        {"tags", "1.2.3"},
		`"latest" is no`:       {"publish", "npm", "latest"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
	var notes bytes.Buffer
	if err := run(t.Context(), []string{"notes", "-tree", repository, "-from", "HEAD"}, &notes); err != nil || !strings.HasPrefix(notes.String(), "# Gyro HEAD\n") {
		t.Errorf("%v\n%s", err, notes.String())
	}
}
