// Package version knows every place of the repository that has the version of the next release: the modules require each
// other in it, and the chart, the packages for npm and Python and the server name it. A release begins with a look at whether all of
// them say the same.
package version

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// kind is a form of the version in files: before, the version, after. The pattern's only group is the version.
type kind struct {
	pattern       *regexp.Regexp
	before, after string
}

var (
	require = kind{regexp.MustCompile(`(?m)^(?:require|replace)?\s*github\.com/gyrohq/gyro(?:/[a-z/]+)? (v\S+)`), "v", ""}
	npm     = kind{regexp.MustCompile(`"name": "@gyrohq/client",\n\s*"version": "([^"]+)"`), "", ""}
	python  = kind{regexp.MustCompile(`(?m)^name = "gyro-api"\nversion = "([^"]+)"`), "", ""}
	chart   = kind{regexp.MustCompile(`(?m)^version: (\S+)$`), "", ""}
	// Programs that are no release say so.
	app    = kind{regexp.MustCompile(`(?m)^appVersion: (\S+)$`), "", "-dev"}
	server = kind{regexp.MustCompile(`(?m)^\tversion = "([^"]+)"`), "", "-dev"}
)

// file is a file with versions of these kinds, each at least once.
type file struct {
	path  string
	kinds []kind
}

func files(tree string) ([]file, error) {
	list := []file{
		{"go.work", []kind{require}},
		{"deploy/helm/gyro/Chart.yaml", []kind{chart, app}},
		{"clients/js/package.json", []kind{npm}},
		{"clients/js/package-lock.json", []kind{npm}},
		{"e2e/js/package-lock.json", []kind{npm}},
		{"clients/python/pyproject.toml", []kind{python}},
		{"server/cmd/gyro/main.go", []kind{server}},
	}
	modules, err := Modules(tree)
	for _, dir := range modules {
		list = append(list, file{filepath.ToSlash(filepath.Join(dir, "go.mod")), []kind{require}})
	}
	return list, err
}

// Modules returns the folders of all modules of the workspace.
func Modules(tree string) ([]string, error) {
	path := filepath.Join(tree, "go.work")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(path, text, nil)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, use := range work.Use {
		dirs = append(dirs, use.Path)
	}
	return dirs, nil
}

// Parse returns a version without the v of its tag. From v2 on, the paths of the modules would have to name it.
func Parse(tag string) (string, error) {
	if !semver.IsValid(tag) || semver.Canonical(tag) != tag {
		return "", fmt.Errorf("%q is no version like v1.2.3 or v1.2.3-rc.1", tag)
	}
	if major := semver.Major(tag); major != "v0" && major != "v1" {
		return "", fmt.Errorf("the paths of the modules do not end with /%s", major)
	}
	return tag[1:], nil
}

// Check returns an error that names every place that has another version than this one, which has no v.
func Check(tree, version string) error {
	list, err := files(tree)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range list {
		text, err := os.ReadFile(filepath.Join(tree, f.path))
		if err != nil {
			return err
		}
		for _, k := range f.kinds {
			found := k.pattern.FindAllSubmatchIndex(text, -1)
			if found == nil && !mayLack(f) {
				errs = append(errs, fmt.Errorf("%s has no version that matches %s", f.path, k.pattern))
			}
			for _, at := range found {
				if got, want := string(text[at[2]:at[3]]), k.before+version+k.after; got != want {
					errs = append(errs, fmt.Errorf("%s:%d has %s, not %s", f.path, 1+bytes.Count(text[:at[2]], []byte("\n")), got, want))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// A module may require none of the others.
func mayLack(f file) bool { return strings.HasSuffix(f.path, "go.mod") }

// Set writes the version, which has no v, to all places.
func Set(tree, version string) error {
	list, err := files(tree)
	if err != nil {
		return err
	}
	for _, f := range list {
		path := filepath.Join(tree, f.path)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		before := bytes.Clone(text)
		for _, k := range f.kinds {
			text = k.set(text, version)
		}
		if bytes.Equal(before, text) {
			continue
		}
		if err := os.WriteFile(path, text, fs.FileMode(0o644)); err != nil {
			return err
		}
	}
	return nil
}

func (k kind) set(text []byte, version string) []byte {
	var out []byte
	last := 0
	for _, at := range k.pattern.FindAllSubmatchIndex(text, -1) {
		out = append(out, text[last:at[2]]...)
		out = append(out, k.before+version+k.after...)
		last = at[3]
	}
	return append(out, text[last:]...)
}

// Published reports whether the module of a folder, as go.work names it, is one that users require. The others are for this
// repository alone.
func Published(dir string) bool {
	return dir != "./e2e" && dir != "./tools" && !strings.HasPrefix(dir, "./examples/") && !strings.HasPrefix(dir, "./internal/")
}

// Tags returns the tags of a release: its own, and one for each other module that users require.
func Tags(tree, version string) ([]string, error) {
	modules, err := Modules(tree)
	var tags []string
	for _, dir := range modules {
		if Published(dir) {
			tags = append(tags, strings.TrimPrefix(filepath.ToSlash(filepath.Join(dir, "v"+version)), "./"))
		}
	}
	return tags, err
}
