package main

import (
	"os"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// theRules are the rules for Prometheus.
func theRules(t *testing.T) []rule {
	t.Helper()
	var all rules
	if err := yaml.UnmarshalStrict(read(t, rulesFile), &all); err != nil {
		t.Fatal(err)
	}
	return all.Groups[0].Rules
}

// TestAlerts: each rule fires with the series that are made for it, and with others that look alike it does not. The engine is
// that of Prometheus.
func TestAlerts(t *testing.T) {
	data, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Alert        string
		Fires, Quiet []string
	}
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	byName, fired, quiet := make(map[string]rule), make(map[string]bool), make(map[string]bool)
	for _, r := range theRules(t) {
		byName[r.Alert] = r
	}
	for _, c := range cases {
		r, ok := byName[c.Alert]
		if !ok {
			t.Fatalf("there is no alert %s", c.Alert)
		}
		check := func(list []string, want bool) {
			s := make(store)
			for _, text := range list {
				s.described(t, text)
			}
			if s.fires(t, r, 30*time.Minute) != want {
				t.Errorf("%s: fires %v with %q", c.Alert, !want, list)
			}
		}
		if len(c.Fires) > 0 {
			fired[c.Alert] = true
			check(c.Fires, true)
		}
		if len(c.Quiet) > 0 {
			quiet[c.Alert] = true
			check(c.Quiet, false)
		}
	}
	for name := range byName {
		if !fired[name] || !quiet[name] {
			t.Errorf("%s: there are series with which it fires: %v, and others: %v", name, fired[name], quiet[name])
		}
	}
}
