package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/tools/conformance"
)

// TestSections: the sections of docs/ that gyro conformance names are there.
func TestSections(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, r := range conformance.Rules() {
		if names[r.Check] {
			t.Errorf("two checks have the name %s", r.Check)
		}
		names[r.Check] = true
		page, anchor, _ := strings.Cut(r.Section, "#")
		text, err := os.ReadFile("../../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(string(text)) {
			if title, ok := strings.CutPrefix(line, "#"); ok {
				title = strings.ToLower(strings.TrimSpace(strings.TrimLeft(title, "#")))
				found = found || strings.ReplaceAll(title, " ", "-") == anchor
			}
		}
		if !found {
			t.Errorf("%s: docs/%s has no section #%s", r.Check, page, anchor)
		}
	}
}
