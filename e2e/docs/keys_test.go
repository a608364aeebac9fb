//go:build unix

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	named     = regexp.MustCompile("`([a-z][a-z0-9_]*(?:\\[\\])?(?:\\.[a-z0-9_]+(?:\\[\\])?)+)`")
	reference = regexp.MustCompile("(?m)^\\| `([a-z0-9_.\\[\\]]+)` \\|(.*)$")
	likewise  = regexp.MustCompile("The keys of `([a-z0-9_.\\[\\]]+)`")
	fenced    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

var notKeys = []string{
	"rpc.method", // an attribute of OpenTelemetry
}

// TestKeys: the keys that pages name exist. A page may leave out the front of a key.
func TestKeys(t *testing.T) {
	keys := map[string]bool{}
	add := func(key string) {
		parts := strings.Split(strings.ReplaceAll(key, "[]", ""), ".")
		for i := range parts {
			for j := i + 1; j <= len(parts); j++ {
				keys[strings.Join(parts[i:j], ".")] = true
			}
		}
	}
	rows := reference.FindAllStringSubmatch(configuration(t), -1)
	sections := map[string]bool{}
	for _, row := range rows {
		add(row[1])
		section, _, _ := strings.Cut(strings.ReplaceAll(row[1], "[]", ""), ".")
		sections[section] = true
		of := likewise.FindStringSubmatch(row[2])
		if of == nil {
			continue
		}
		for _, other := range rows {
			if rest, ok := strings.CutPrefix(other[1], of[1]+"."); ok {
				add(row[1] + "." + rest)
			}
		}
	}
	if len(keys) < 500 {
		t.Fatalf("%d keys found in the reference", len(keys))
	}
	for _, name := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, name), ""), -1) {
			key := strings.ReplaceAll(m[1], "[]", "")
			section, _, _ := strings.Cut(key, ".")
			if sections[section] && !keys[key] && !slices.Contains(notKeys, key) {
				t.Errorf("%s: the configuration has no key %s", name, m[1])
			}
		}
	}
}

var (
	metric = regexp.MustCompile("`(?:[a-z]+\\()*gyro_([a-z0-9_]+)[`{[]")
	family = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|")
	suffix = regexp.MustCompile("_(bucket|count|sum)$")
)

// TestMetrics: the metrics that pages name are in the list of metrics.
func TestMetrics(t *testing.T) {
	families := map[string]bool{}
	for _, m := range family.FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		families[m[1]] = true
	}
	if len(families) < 50 {
		t.Fatalf("%d metrics found in the list", len(families))
	}
	for _, name := range pages(t) {
		if isReference(name) { // its defaults have such names, too
			continue
		}
		for _, m := range metric.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, name), ""), -1) {
			// Engines have metrics of their own, which their pages list.
			if !families[m[1]] && !families[suffix.ReplaceAllString(m[1], "")] && !strings.HasPrefix(m[1], "broker_postgres_") {
				t.Errorf("%s: there is no metric %s", name, m[1])
			}
		}
	}
}

var column = regexp.MustCompile(`(^|[^\\])\|`)

// TestTables: the rows of a table have as many cells as its head. A bar within a cell needs a backslash, also in code.
func TestTables(t *testing.T) {
	for _, name := range pages(t) {
		columns, fence := 0, false
		for i, line := range strings.Split(read(t, name), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fence = !fence
			}
			if fence || !strings.HasPrefix(line, "|") {
				columns = 0
				continue
			}
			found := len(column.FindAllString(strings.ReplaceAll(line, "||", "| |"), -1))
			if columns == 0 {
				columns = found
			}
			if found != columns {
				t.Errorf("%s:%d: %d bars in the row of a table with %d", name, i+1, found, columns)
			}
		}
	}
}
