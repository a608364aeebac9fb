package main

import (
	"strings"
	"testing"
)

// TestExplain: the command tells what is wrong, as text or as JSON.
func TestExplain(t *testing.T) {
	t.Parallel()
	_, _, base := startDev(t, "--api-key", "my-key")
	for _, args := range [][]string{
		{"explain", "--user", "42", "--channel", "chat:1", "--api", base + "/api", "--api-key", "my-key"},
	} {
		out := succeed(t, t.TempDir(), args...)
		for _, want := range []string{"PROBLEM  the user is not connected", "subscribing is allowed", "there is a namespace chat", "events: "} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %s lacks %s", args, out, want)
			}
		}
	}
	if out := succeed(t, t.TempDir(), "explain", "-u", "42", "--json", "--api", base+"/api", "--api-key", "my-key"); !strings.HasPrefix(out, `{"findings":[{"level":"problem"`) {
		t.Error(out)
	}
}
