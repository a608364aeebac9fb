package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/gyrohq/gyro/tools/release/image"
	"github.com/gyrohq/gyro/tools/release/version"
)

// tagged is a repository with the files that have the version, in version 1.2.3 and with a changelog, and its tags.
func tagged(t *testing.T) (tree string, git func(args ...string)) {
	t.Helper()
	tree = t.TempDir()
	git = func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", tree, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	names := []string{"go.work", "deploy/helm/gyro/Chart.yaml", "clients/js/package.json", "clients/js/package-lock.json", "e2e/js/package-lock.json", "clients/python/pyproject.toml", "server/cmd/gyro/main.go"}
	modules, err := version.Modules(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range modules {
		names = append(names, filepath.Join(dir, "go.mod"))
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(tree, name), string(text))
	}
	write(t, filepath.Join(tree, changelog), "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-12-01\n\n### Fixed\n\n* Pings\n")
	if err := version.Set(tree, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "Everything")
	list, err := tags(tree, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range list {
		git("tag", tag)
	}
	return tree, git
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestVerify: a commit with all tags, one version and a section of the changelog can be released, and nothing less.
func TestVerify(t *testing.T) {
	tree, git := tagged(t)
	var said bytes.Buffer
	if err := verify(t.Context(), tree, "1.2.3", &said); err != nil || said.String() != "1.2.3 can be released\n" {
		t.Fatalf("%v\n%s", err, said.String())
	}
	lacks := func(why, v string, parts ...string) {
		t.Helper()
		err := verify(t.Context(), tree, v, io.Discard)
		if err == nil {
			t.Errorf("%s: it can be released", why)
			return
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: no %q in %v", why, part, err)
			}
		}
	}
	lacks("another version", "1.2.4", "go.work:", "server/go.mod:", "Chart.yaml:5 has 1.2.3, not 1.2.4", "package.json:3", "section [1.2.4]", "server/v1.2.4, ", ", v1.2.4")
	git("tag", "-d", "broker/redis/v1.2.3")
	lacks("a module without tag", "1.2.3", "the commit lacks the tags broker/redis/v1.2.3")
	write(t, filepath.Join(tree, changelog), "# Changelog\n\n## [Unreleased]\n\n* Pings\n\n## [1.2.3] - 2026-12-01\n")
	lacks("an empty section", "1.2.3", "section [1.2.3]")
}

// TestChanges: the notes have the section of the version; those of a version that is not released have what will be.
func TestChanges(t *testing.T) {
	tree := t.TempDir()
	write(t, filepath.Join(tree, changelog), "## [Unreleased]\n\n* New\n\n## [1.2.3]\n\n* Old\n")
	for v, want := range map[string]string{"1.2.3": "* Old", "1.3.0-dev.1": "* New"} {
		if got, err := changes(tree, v); got != want || err != nil {
			t.Errorf("%s: %q %v", v, got, err)
		}
	}
	if _, err := changes(t.TempDir(), "1.2.3"); err == nil {
		t.Error("a tree without a changelog")
	}
}

// programs puts programs named gh and npm on the path, which note how they are called. There are no such releases and
// packages yet, unless there is a file named there.
func programs(t *testing.T) (folder string, calls func() string) {
	t.Helper()
	folder = t.TempDir()
	const script = `#!/bin/sh
case "$1" in
view | release)
  if [ "$1" = view ] || [ "$2" = view ]; then
    [ -e "$CALLS/there" ] && echo 1.2.3 && exit
    exit 1
  fi ;;
esac
echo "$(basename "$PWD")> $(basename "$0") $*" >>"$CALLS/calls"
`
	for _, name := range []string{"gh", "npm"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("CALLS", folder)
	return folder, func() string {
		file := filepath.Join(folder, "calls")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), folder, "DIR")
	}
}

// TestPublish: the files go to GitHub, and the package to npm; what is there already is not an error.
func TestPublish(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	folder, calls := programs(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Base(here)
	tree := filepath.Join(folder, "tree")
	dist := filepath.Join(folder, "dist")
	write(t, filepath.Join(tree, "clients/js/package.json"), `{"name": "@gyrohq/client", "version": "1.2.3"}`)
	p := publication{tree: tree, dist: dist, version: "1.2.3", stdout: io.Discard}
	if err := p.publish(t.Context(), "files"); err == nil || !strings.Contains(err.Error(), "no files") {
		t.Errorf("without files: %v", err)
	}
	write(t, filepath.Join(dist, "NOTES.md"), "notes")
	write(t, filepath.Join(dist, "gyro.rb"), "formula")
	check := func(part, want string) {
		t.Helper()
		if err := p.publish(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		if got := calls(); got != want {
			t.Errorf("%s %s:\n%swant\n%s", part, p.version, got, want)
		}
	}
	check("files", at+"> gh release create v1.2.3 --verify-tag --title Gyro 1.2.3 --notes-file DIR/dist/NOTES.md DIR/dist/NOTES.md DIR/dist/gyro.rb\n")
	const built = "js> npm ci --no-audit --no-fund\njs> npm run build\n"
	check("npm", built+"js> npm publish --access=public --tag=latest --provenance\n")

	t.Setenv("GITHUB_ACTIONS", "")
	p.version = "1.2.3-rc.1"
	if err := p.publish(t.Context(), "npm"); err == nil || !strings.Contains(err.Error(), "has the version 1.2.3, not 1.2.3-rc.1") {
		t.Errorf("a package of another version: %v", err)
	}
	write(t, filepath.Join(tree, "clients/js/package.json"), `{"name": "@gyrohq/client", "version": "1.2.3-rc.1"}`)
	check("files", at+"> gh release create v1.2.3-rc.1 --verify-tag --title Gyro 1.2.3-rc.1 --notes-file DIR/dist/NOTES.md --prerelease DIR/dist/NOTES.md DIR/dist/gyro.rb\n")
	check("npm", built+"js> npm publish --access=public --tag=next\n")

	p.version = "1.2.3"
	write(t, filepath.Join(tree, "clients/js/package.json"), `{"name": "@gyrohq/client", "version": "1.2.3"}`)
	write(t, filepath.Join(folder, "there"), "")
	check("files", at+"> gh release upload v1.2.3 --clobber DIR/dist/NOTES.md DIR/dist/gyro.rb\n")
	var said bytes.Buffer
	p.stdout = &said
	if err := p.publish(t.Context(), "npm"); err != nil || said.String() != "@gyrohq/client 1.2.3 is published\n" {
		t.Errorf("%v %s", err, said.String())
	}
	if err := p.publish(t.Context(), "everything"); err == nil {
		t.Error("an unknown part")
	}
}

// TestPublishImage: the image is uploaded under the version, and its digest is printed.
func TestPublishImage(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	var file, said bytes.Buffer
	err := image.Write(&file, image.Release{
		Name: "gyro", Tag: "1.2.3", Version: "1.2.3", Commit: strings.Repeat("a", 40), Time: time.Unix(1, 0),
		Programs: []image.Program{{Arch: "amd64", Data: []byte("program")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	write(t, filepath.Join(dist, "gyro_1.2.3_image.tar"), file.String())
	p := publication{dist: dist, version: "1.2.3", repository: strings.TrimPrefix(server.URL, "http://") + "/gyrohq/gyro", stdout: &said}
	if err := p.publish(t.Context(), "image"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(said.String(), p.repository+"@sha256:") {
		t.Error(said.String())
	}
}
