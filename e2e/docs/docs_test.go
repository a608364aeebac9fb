//go:build unix

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

func TestMain(m *testing.M) {
	os.Exit(rig.Run(m))
}

func pages(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md"}
	err := fs.WalkDir(os.DirFS(repository), "docs", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) < 50 {
		t.Fatalf("%d pages found: %v", len(names), err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func configuration(t *testing.T) string {
	t.Helper()
	text := ""
	for _, name := range pages(t) {
		if isReference(name) {
			text += read(t, name)
		}
	}
	return text
}

func isReference(page string) bool { return strings.HasPrefix(page, "docs/configuration/") }

func TestPages(t *testing.T) {
	for _, name := range pages(t) {
		t.Run(strings.TrimPrefix(name, "docs/"), func(t *testing.T) {
			t.Parallel()
			blocks, err := parse(read(t, name))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(blocks) == 0 {
				return
			}
			p := newPage(t)
			for _, b := range blocks {
				if !t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
					in := *p
					in.T = t
					in.try(b)
					in.T = p.T
					*p = in
				}) {
					return // what follows relies on it
				}
			}
		})
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func anchors(page string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		names = append(names, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

// TestLinks follows links within the repository. The table of contents has all pages; a page of a folder may be in the
// README.md of the folder instead, or in the page with its name.
func TestLinks(t *testing.T) {
	contents := map[string]bool{}
	for _, name := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, name), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			file := path.Join(path.Dir(name), target)
			if target == "" {
				file = name
			}
			if name == "docs/README.md" || name == path.Join(path.Dir(file), "README.md") || name == path.Dir(file)+".md" {
				contents[file] = true
			}
			if strings.HasPrefix(file, "..") {
				t.Errorf("%s: %s is not in this repository", name, m[1])
			} else if _, err := os.Stat(filepath.Join(repository, file)); err != nil {
				t.Errorf("%s: %s: %v", name, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: %s has no heading %s", name, file, anchor)
			}
		}
	}
	for _, name := range pages(t) {
		if strings.HasPrefix(name, "docs/") && name != "docs/README.md" && !contents[name] {
			t.Errorf("no table of contents names %s", name)
		}
	}
}

// TestPermissions: the page has every key that permits something in this build.
func TestPermissions(t *testing.T) {
	page := read(t, "docs/permissions.md")
	keys := regexp.MustCompile("(?m)^\\| `channel.without_namespace.(allow_\\w+)` .*$").FindAllStringSubmatch(configuration(t), -1)
	if len(keys) < 10 {
		t.Fatalf("%d keys found in the reference", len(keys))
	}
	for _, m := range keys {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("%s is missing", m[1])
		}
	}
}

// TestSystem: the pages have every setting of the kernel, and the configuration, that the packages bring.
func TestSystem(t *testing.T) {
	if !strings.Contains(read(t, "docs/install.md"), read(t, "deploy/packages/config.json")) {
		t.Error("docs/install.md shows another config.json than that of the packages")
	}
	page := read(t, "docs/operations.md")
	keys := regexp.MustCompile(`(?m)^([a-z][\w.]+) = `).FindAllStringSubmatch(read(t, "deploy/systemd/sysctl.conf"), -1)
	if len(keys) < 8 {
		t.Fatalf("%d settings found", len(keys))
	}
	for _, m := range keys {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("%s is missing", m[1])
		}
	}
}

// TestMethods: the reference of the server API has a request to every method, and an answer.
func TestMethods(t *testing.T) {
	page := read(t, "docs/http-api.md")
	methods := regexp.MustCompile(`(?m)^\s*rpc (\w+)`).FindAllStringSubmatch(read(t, "server/internal/api/api.proto"), -1)
	if len(methods) < 15 {
		t.Fatalf("%d methods found in the schema", len(methods))
	}
	for _, m := range methods {
		name := strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(m[1], "${1}_$2"))
		if !strings.Contains(page, "post=/api/"+name+"\n") {
			t.Errorf("there is no request to %s", name)
		}
	}
}
