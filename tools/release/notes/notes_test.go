package notes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	commits, err := parse("\x1ea1\x1fServe more\x1fWhy.\n\nBreaking: rename key_a to key_b\n\x1f\n\nserver/app/app.go\ndocs/configuration.md\ndocs/tls.md\nserver/app/app_test.go\n" +
		"\x1eb2\x1fDraw the house\x1f\x1f\n\ndocs/ARCHITECTURE.md\n" +
		"\x1ec3\x1fSpeak of nodes\x1f\x1f\nnode.go\ninternal/hub/hub.go\nbroker/broker.go\n" +
		"\x1ed4\x1fTest more\x1f\x1f\nnode_test.go\n" +
		"\x1ef6\x1fLoop\x1f\x1f\nclients/js/src/client.ts\ndocs/client-js.md\n" +
		"\x1e07\x1fRun what changed\x1f\x1f\n.github/workflows/ci.yml\nbiome.jsonc\n" +
		"\x1ee5\x1fNothing\x1f\x1f\n")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := Write(&text, "1.2.3", "More of it: [all](https://example.org/all).\n\n### Added\n\n* Maps ([how](docs/maps.md#how), [an example](examples/board))\n\n### Fixed\n\n* Pings", commits); err != nil {
		t.Fatal(err)
	}
	const want = `# Gyro 1.2.3

More of it: [all](https://example.org/all).

## Added

* Maps ([how](https://github.com/gyrohq/gyro/blob/v1.2.3/docs/maps.md#how), [an example](https://github.com/gyrohq/gyro/blob/v1.2.3/examples/board))

## Fixed

* Pings

## What to change

* rename key_a to key_b (a1)

## Server

* Serve more (a1)
* Nothing (e5)

## Library

* Speak of nodes (c3)

## Clients

* Loop (f6)

## Documentation

* Draw the house (b2)

## Tests and tools

* Test more (d4)
* Run what changed (07)
`
	if text.String() != want {
		t.Error(text.String())
	}
	if _, err := parse("\x1ea1\x1fx"); err == nil {
		t.Error("a record without its fields")
	}
}

func TestSection(t *testing.T) {
	const changelog = `# Changelog

About it.

## [Unreleased]

## [1.2.3] - 2026-12-01

### Added

* Maps ([how](docs/maps.md))

## [1.2.30-rc.1] - 2026-11-01

* Another

[Unreleased]: https://example.org/compare/v1.2.3...HEAD
[1.2.3]: https://example.org/tag/v1.2.3
`
	for version, want := range map[string]string{
		"1.2.3":       "### Added\n\n* Maps ([how](docs/maps.md))",
		"1.2.30-rc.1": "* Another",
		"Unreleased":  "",
		"1.2":         "",
		"1.2.30":      "",
	} {
		if got := Section(changelog, version); got != want {
			t.Errorf("%s: %q", version, got)
		}
	}
}

// TestRead reads the commits of a repository since its tag.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	commit := func(file, message string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(message), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "-q", "-m", message)
	}
	git("init", "-q")
	commit("a", "First")
	git("tag", "v1")
	commit("b", "Second\n\nBreaking: b moves")
	since, err := Read(t.Context(), dir, "v1", "HEAD")
	if err != nil || len(since) != 1 || since[0].Title != "Second" || len(since[0].Files) != 1 || since[0].Breaking[0] != "b moves" {
		t.Errorf("%+v %v", since, err)
	}
	all, err := Read(t.Context(), dir, "", "HEAD")
	if err != nil || len(all) != 2 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := Read(t.Context(), dir, "v9", "HEAD"); err == nil || !strings.Contains(err.Error(), "v9..HEAD") {
		t.Error(err)
	}
}
