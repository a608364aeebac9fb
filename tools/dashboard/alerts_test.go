package main

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
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
	made, err := generate(read(t, "docs/metrics.md"), naming{prefix: "centrifugo", cluster: shipped.cluster})
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

// TestAlerts: each rule fires with the series that are made for it, in time and not for too long, and with others that look alike it does
// not. The engine is that of Prometheus.
func TestAlerts(t *testing.T) {
	data, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Alert        string
		Fires, Quiet []string
		Since, Until string
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
		firing := func(list []string) []time.Duration {
			s := newStore()
			for _, text := range list {
				s.described(t, text)
			}
			return s.firing(t, r, hold(t, r)+30*time.Minute)
		}
		if len(c.Fires) > 0 {
			fired[c.Alert] = true
			inTime(t, r, firing(c.Fires), c.Since, c.Until)
		}
		if len(c.Quiet) > 0 {
			quiet[c.Alert] = true
			if times := firing(c.Quiet); len(times) > 0 {
				t.Errorf("%s: fires at %v with %q", c.Alert, times[0], c.Quiet)
			}
		}
	}
	for name := range byName {
		if !fired[name] || !quiet[name] {
			t.Errorf("%s: there are series with which it fires: %v, and others: %v", name, fired[name], quiet[name])
		}
	}
}

// inTime holds the times at which a rule fires to those of a test.
func inTime(t *testing.T, r rule, times []time.Duration, since, until string) {
	t.Helper()
	if len(times) == 0 {
		t.Errorf("%s does not fire", r.Alert)
		return
	}
	first, last := times[0], times[len(times)-1]
	if d, err := time.ParseDuration(since); since != "" && (err != nil || first > d) {
		t.Errorf("%s: fires at %v, want since %s: %v", r.Alert, first, since, err)
	}
	if d, err := time.ParseDuration(until); until != "" && (err != nil || last >= d) {
		t.Errorf("%s: fires at %v, want until %s: %v", r.Alert, last, until, err)
	}
}

// TestAnnotations: what a pager shows has addresses that lead somewhere, and no Markdown.
func TestAnnotations(t *testing.T) {
	address := regexp.MustCompile(`https?://[^\s)]+`)
	for _, r := range theRules(t) {
		for name, text := range r.Annotations {
			if strings.Contains(text, "](") {
				t.Errorf("%s: %s has a link of Markdown: %s", r.Alert, name, text)
			}
			for _, found := range address.FindAllString(text, -1) {
				page, anchor, _ := strings.Cut(strings.TrimPrefix(found, pages), "#")
				if !strings.HasPrefix(found, pages) || !slices.Contains(anchors(t, page), anchor) {
					t.Errorf("%s: %s leads nowhere: %s", r.Alert, name, found)
				}
			}
		}
	}
	if !slices.ContainsFunc(theRules(t), func(r rule) bool { return strings.Contains(r.Annotations["description"], pages) }) {
		t.Error("no description has an address")
	}
}

// anchors are those of a page's headings, and the empty one.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	list := []string{""}
	for line := range strings.Lines(string(read(t, "docs/"+page))) {
		if title := strings.TrimLeft(line, "#"); title != line {
			list = append(list, strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-"))
		}
	}
	return list
}

// TestNaming: the prefix of metrics and the labels of clusters are those that an installation gives.
func TestNaming(t *testing.T) {
	n := naming{prefix: "centrifugo", cluster: "region"}
	const want = `sum by (region) (centrifugo_node_num_clients)`
	if got := n.expr(`sum by ($c) (node_num_clients)`, families(t)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, r := range theRules(t) {
		if strings.Contains(r.Expr, "$") || strings.Contains(r.Expr, `job="`) {
			t.Errorf("%s: %s", r.Alert, r.Expr)
		}
		if e, err := parser.ParseExpr(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		} else {
			byCluster(t, r, e)
		}
	}
}

// byCluster: whatever a rule adds up, it adds up for each cluster.
func byCluster(t *testing.T, r rule, e parser.Expr) {
	t.Helper()
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok && (a.Without || !slices.Contains(a.Grouping, "cluster") || !slices.Contains(a.Grouping, "job")) {
			t.Errorf("%s adds up clusters: %s", r.Alert, a)
		}
		return nil
	})
}
