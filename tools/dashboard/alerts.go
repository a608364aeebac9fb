package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/tools/internal/alertrules"
)

type alert struct {
	Name     string `json:"name"`
	Expr     string `json:"expr"`
	For      string `json:"for"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Means    string `json:"means"`
	Do       string `json:"do"`
}

// pages is the address of the pages of docs, for a reader of an alert in a pager.
const pages = "https://github.com/gyrohq/gyro/blob/main/docs/"

// naming says how the rules call things that each installation calls differently.
type naming struct {
	prefix  string // prometheus.namespace of the nodes
	cluster string // the labels, with commas, that tell clusters apart
}

var shipped = naming{prefix: "gyro", cluster: "cluster, job"}

func (n naming) expr(text string, list []family) string {
	return strings.ReplaceAll(qualify(text, n.prefix, "", list), "$c", n.cluster)
}

type (
	rules = alertrules.File
	group = alertrules.Group
	rule  = alertrules.Rule
)

var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// plain replaces the links of Markdown by addresses, because pagers do not know Markdown.
func plain(text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		m := link.FindStringSubmatch(found)
		if strings.HasPrefix(m[2], "#") {
			m[2] = strings.TrimPrefix(alertsFile, "docs/") + m[2]
		}
		return m[1] + " (" + pages + m[2] + ")"
	})
}

func newRules(alerts []alert, list []family, n naming) (rules, error) {
	g := group{Name: "gyro"}
	for _, a := range alerts {
		switch {
		case !strings.HasPrefix(a.Name, "Gyro") || slices.ContainsFunc(g.Rules, func(r rule) bool { return r.Alert == a.Name }):
			return rules{}, fmt.Errorf("alert %q has no name of its own that begins with Gyro", a.Name)
		case !slices.Contains([]string{"critical", "warning", "info"}, a.Severity) || a.Title == "" || a.Means == "" || a.Do == "":
			return rules{}, fmt.Errorf("alert %s has no severity, title, meaning or advice", a.Name)
		}
		g.Rules = append(g.Rules, rule{
			Alert: a.Name, Expr: n.expr(a.Expr, list), For: a.For,
			Labels: map[string]string{"severity": a.Severity},
			Annotations: map[string]string{
				"summary": a.Title, "description": plain(a.Means), "runbook_url": pages + "alerts.md#" + strings.ToLower(a.Name),
			},
		})
	}
	return rules{Groups: []group{g}}, nil
}

const alertsHead = `<!-- Made by tools/dashboard from its alerts.yaml. -->

# Alerts

This page lists the alerts, with their meaning and the remedies. [deploy/prometheus/alerts.yml](../deploy/prometheus/alerts.yml) has them as
rules for Prometheus; the compose file in [deploy/compose](../deploy/compose/compose.yaml) loads the rules. [metrics.md](metrics.md) explains
the metrics.

The rules suit scrape intervals of 5 to 30 seconds. They compare counts with the size of the cluster, or with the successes, so the same rules
fit 100 clients and 100,000. Minimum counts (more than ten, more than 50 clients) keep an idle system quiet.

## Clusters

The nodes of a cluster have the same values of the labels ` + "`%[1]s`" + `. Prometheus gives each target its ` + "`job`" + `; whether the job is
called ` + "`gyro`" + ` or not makes no difference. Two clusters in one job, such as production and staging, need the label
` + "`cluster`" + ` as well, because otherwise each node would seem not to know the nodes of the other cluster:

` + "```yaml figure\nscrape_configs:\n  - job_name: gyro\n    static_configs:\n      - targets: [10.0.0.1:9000, 10.0.0.2:9000]\n        labels: { cluster: production }\n      - targets: [10.0.1.1:9000]\n        labels: { cluster: staging }\n```" + `

The chart sets it for the Prometheus operator (` + "`serviceMonitor.cluster`" + `, by default the name of the release). If your installation
has other labels for clusters, or another ` + "`prometheus.namespace`" + `, generate the rules again:

` + "```sh skip=\"it is run in a checkout of the repository\"\ngo run ./tools/dashboard -prefix centrifugo -cluster environment,region\n```" + `

## All alerts

| alert | severity | |
| --- | --- | --- |
`

func alertsPage(alerts []alert, list []family) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, alertsHead, shipped.cluster)
	for _, a := range alerts {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", a.Name, strings.ToLower(a.Name), a.Severity, a.Title)
	}
	for _, a := range alerts {
		fmt.Fprintf(&b, "\n## %s\n\n%s%s.\n\n```text figure\n%s\n```\n\n%s\n\n**What to do.** %s\n", a.Name,
			strings.ToUpper(a.Title[:1]), a.Title[1:], shipped.expr(a.Expr, list), a.Means, a.Do)
	}
	return []byte(b.String())
}
