// Package notes writes the notes of a release: the text of CHANGELOG.md about it, the breaking changes, and the title
// of each commit since the release before it, by the part of the project that it changes.
package notes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// Commit is one commit of a release.
type Commit struct {
	Hash, Title string
	// Breaking has the changes that users must make: the lines of the message that begin with Breaking:.
	Breaking []string
	// Files are the paths that it changes.
	Files []string
}

// A group is a heading of the notes.
type group struct {
	title string
	// below are the beginnings of the paths that belong to it.
	below []string
}

// groups order the notes. A path belongs to the first group that names it, and to the library if none does.
var groups = []group{
	{"Server", []string{"server/", "admin/"}},
	{"Library", nil},
	{"Clients", []string{"client/", "clients/"}},
	{"Engines", []string{"broker/"}},
	{"Transports", []string{"transport/"}},
	{"Metrics", []string{"metrics/", "deploy/grafana", "deploy/prometheus"}},
	{"Packages and deployment", []string{"deploy/", "tools/release/"}},
	{"Documentation", []string{"docs/", "examples/", "site/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}},
	{"Tests and tools", []string{"e2e/", "tools/", "scripts/", "gyrotest/", "Makefile", "biome.jsonc", "."}},
}

const (
	library = 1
	// minor is the first of the groups that do not count if a commit changes others too.
	minor = 7
)

func (c Commit) place() int {
	counts := make([]int, len(groups))
	for _, file := range c.Files {
		counts[placeOf(file)]++
	}
	best, from := -1, counts
	if slices.ContainsFunc(counts[:minor], func(n int) bool { return n > 0 }) {
		from = counts[:minor]
	}
	for i, n := range from {
		if n > 0 && (best < 0 || n > from[best]) {
			best = i
		}
	}
	return max(best, 0)
}

func placeOf(file string) int {
	if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
		return len(groups) - 1
	}
	for i, g := range groups {
		if slices.ContainsFunc(g.below, func(prefix string) bool { return strings.HasPrefix(file, prefix) }) {
			return i
		}
	}
	return library
}

// Read returns the commits after one revision up to another, the newest first. An empty from means all.
func Read(ctx context.Context, tree, from, to string) ([]Commit, error) {
	revisions := to
	if from != "" {
		revisions = from + ".." + to
	}
	cmd := exec.CommandContext(ctx, "git", "-C", tree, "log", "--no-merges", "--name-only", "--format=%x1e%h%x1f%s%x1f%b%x1f", revisions, "--")
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git log %s: %w: %s", revisions, err, failure.Bytes())
	}
	return parse(string(out))
}

func parse(log string) (commits []Commit, err error) {
	for record := range strings.SplitSeq(log, "\x1e") {
		if strings.TrimSpace(record) == "" {
			continue
		}
		fields := strings.Split(record, "\x1f")
		if len(fields) != 4 {
			return nil, errors.New("git log: a commit has not the fields that were asked for")
		}
		c := Commit{Hash: fields[0], Title: fields[1], Files: strings.Fields(fields[3])}
		for line := range strings.Lines(fields[2]) {
			if text, ok := strings.CutPrefix(line, "Breaking:"); ok {
				c.Breaking = append(c.Breaking, strings.TrimSpace(text))
			}
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// Section returns the text of a changelog about a version: the lines below "## [1.2.3]…" up to the next heading of a
// version or the list of links. It is empty without such a heading.
func Section(changelog, version string) string {
	var text strings.Builder
	inside := false
	for line := range strings.Lines(changelog) {
		switch {
		case strings.HasPrefix(line, "## "):
			inside = strings.HasPrefix(line, "## ["+version+"]")
		case strings.HasPrefix(line, "["):
			inside = false
		case inside:
			text.WriteString(line)
		}
	}
	return strings.TrimSpace(text.String())
}

// relative are the targets of links that lead to files of the repository.
var relative = regexp.MustCompile(`\]\(([^():#]+(?:#[^()]*)?)\)`)

// Write writes the notes in Markdown. The changes are a section of the changelog, or empty.
func Write(w io.Writer, version, changes string, commits []Commit) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Gyro %s\n", version)
	if changes != "" {
		// Headings below a version there are headings below the title here, and files of the repository are elsewhere.
		changes = strings.ReplaceAll("\n"+changes, "\n### ", "\n## ")[1:]
		changes = relative.ReplaceAllString(changes, "](https://github.com/gyrohq/gyro/blob/v"+version+"/$1)")
		fmt.Fprintf(&text, "\n%s\n", changes)
	}
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&text, "\n## %s\n\n%s\n", title, strings.Join(lines, "\n"))
		}
	}
	var breaking []string
	lines := make([][]string, len(groups))
	for _, c := range commits {
		for _, line := range c.Breaking {
			breaking = append(breaking, fmt.Sprintf("* %s (%s)", line, c.Hash))
		}
		at := c.place()
		lines[at] = append(lines[at], fmt.Sprintf("* %s (%s)", c.Title, c.Hash))
	}
	section("What to change", breaking)
	for i, g := range groups {
		section(g.title, lines[i])
	}
	_, err := w.Write(text.Bytes())
	return err
}
