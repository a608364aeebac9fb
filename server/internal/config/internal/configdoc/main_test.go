package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestSplit: every row of the reference is on one page, and the index leads to every section.
func TestSplit(t *testing.T) {
	var reference bytes.Buffer
	if err := config.WriteMarkdown(&reference, "", 2); err != nil {
		t.Fatal(err)
	}
	pages, err := split(reference.String())
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, page := range pages {
		all.WriteString(page)
	}
	rows := 0
	for line := range strings.Lines(reference.String()) {
		if strings.HasPrefix(line, "| `") {
			rows++
			if strings.Count(all.String(), line) != strings.Count(reference.String(), line) {
				t.Errorf("not on the pages: %s", line)
			}
		}
		if name, ok := strings.CutPrefix(line, "## "); ok && !strings.Contains(pages["configuration.md"], "\n### "+name) {
			t.Errorf("the index lacks %s", name)
		}
	}
	if rows < 500 {
		t.Errorf("only %d rows found", rows)
	}
}

func TestSplitRefuses(t *testing.T) {
	for reference, want := range map[string]string{
		"## log\n\n| a |\n": "there is no section http_server",
	} {
		if _, err := split(reference); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	var reference bytes.Buffer
	if err := config.WriteMarkdown(&reference, "", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := split(reference.String() + "\n## more\n\n| a |\n"); err == nil || err.Error() != "sections of no group: more" {
		t.Errorf("got %v for a section of no group", err)
	}
}
