package main

import (
	"errors"
	"os"
	"strings"
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

// TestOtherPrefix: what docs/install.md says makes the rules for nodes with another prometheus.namespace: the packages have no generator.
func TestOtherPrefix(t *testing.T) {
	made, err := generate(read(t, "docs/metrics.md"), "centrifugo")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(read(t, "docs/install.md")), "sed 's/gyro_/centrifugo_/g'") {
		t.Error("docs/install.md says something else")
	}
	var got, want rules
	if err := errors.Join(yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(read(t, rulesFile)), "gyro_", "centrifugo_")), &got), yaml.UnmarshalStrict(made[rulesFile], &want)); err != nil {
		t.Fatal(err)
	}
	for i, r := range want.Groups[0].Rules {
		if len(got.Groups[0].Rules) <= i || got.Groups[0].Rules[i].Expr != r.Expr || got.Groups[0].Rules[i].Alert != r.Alert {
			t.Errorf("%s is another rule", r.Alert)
		}
	}
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
