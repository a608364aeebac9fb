package main

import (
	"fmt"
	"slices"
	"strings"
)

// alert is what alerts.yaml has.
type alert struct {
	Name     string `json:"name"`
	Expr     string `json:"expr"`
	For      string `json:"for"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Means    string `json:"means"`
	Do       string `json:"do"`
}

// runbooks is where the sections of docs/alerts.md are.
const runbooks = "https://github.com/gyrohq/gyro/blob/main/docs/alerts.md#"

type rules struct {
	Groups []group `json:"groups"`
}

type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// newRules makes the rules of Prometheus.
func newRules(alerts []alert, list []family, prefix string) (rules, error) {
	g := group{Name: "gyro"}
	for _, a := range alerts {
		switch {
		case !strings.HasPrefix(a.Name, "Gyro") || slices.ContainsFunc(g.Rules, func(r rule) bool { return r.Alert == a.Name }):
			return rules{}, fmt.Errorf("alert %q has no name of its own that begins with Gyro", a.Name)
		case !slices.Contains([]string{"critical", "warning", "info"}, a.Severity) || a.Title == "" || a.Means == "" || a.Do == "":
			return rules{}, fmt.Errorf("alert %s has no severity, title, meaning or advice", a.Name)
		}
		g.Rules = append(g.Rules, rule{
			Alert: a.Name, Expr: qualify(a.Expr, prefix, "", list), For: a.For,
			Labels:      map[string]string{"severity": a.Severity},
			Annotations: map[string]string{"summary": a.Title, "description": a.Means, "runbook_url": runbooks + strings.ToLower(a.Name)},
		})
	}
	return rules{[]group{g}}, nil
}

// alertsPage makes docs/alerts.md.
func alertsPage(alerts []alert, list []family) []byte {
	var b strings.Builder
	b.WriteString(`<!-- Made by tools/dashboard from its alerts.yaml. -->

# Alerts

What to watch for, what it means and what to do. [deploy/prometheus/alerts.yml](../deploy/prometheus/alerts.yml) has these alerts as rules
for Prometheus; the compose file in [deploy/compose](../deploy/compose/compose.yaml) loads them. The job of the nodes is called
` + "`gyro`" + ` there. For nodes with another ` + "`prometheus.namespace`" + `, make the rules anew:

` + "```sh skip=\"it is run in a checkout of the repository\"\ngo run ./tools/dashboard -prefix centrifugo\n```" + `

[metrics.md](metrics.md) explains the metrics. The thresholds suit most installations; yours may be busier or quieter.

| alert | severity | |
| --- | --- | --- |
`)
	for _, a := range alerts {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", a.Name, strings.ToLower(a.Name), a.Severity, a.Title)
	}
	for _, a := range alerts {
		fmt.Fprintf(&b, "\n## %s\n\n%s%s.\n\n```text figure\n%s\n```\n\n%s\n\n**What to do.** %s\n", a.Name,
			strings.ToUpper(a.Title[:1]), a.Title[1:], qualify(a.Expr, "gyro", "", list), a.Means, a.Do)
	}
	return []byte(b.String())
}
