// Command dashboard makes the Grafana dashboard, the alert rules of Prometheus and docs/alerts.md:
//
//	go run ./tools/dashboard [-prefix gyro] [-cluster cluster,job] [-out FOLDER]
//
// Its panels and rules are in panels.yaml and alerts.yaml, the list of metrics is in docs/metrics.md, which tests
// compare with the code. A metric that no panel names gets a panel of its own. -prefix is prometheus.namespace of the
// nodes, for the rules; in the dashboard it is a variable. -cluster are the labels that tell clusters apart in the
// rules.
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

//go:embed panels.yaml alerts.yaml
var sources embed.FS

func main() {
	root := flag.String("root", ".", "root of the repository, which has docs/metrics.md")
	out := flag.String("out", ".", "folder to write to, as the root of a repository")
	n := shipped
	flag.StringVar(&n.prefix, "prefix", n.prefix, "what names of metrics begin with in the alert rules")
	flag.StringVar(&n.cluster, "cluster", n.cluster, "labels that tell clusters apart in the alert rules")
	flag.Parse()
	page, err := os.ReadFile(filepath.Join(*root, "docs/metrics.md"))
	if err != nil {
		log.Fatal(err)
	}
	files, err := generate(page, n)
	if err != nil {
		log.Fatal(err)
	}
	for name, data := range files {
		file := filepath.Join(*out, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

const (
	dashboardFile = "deploy/grafana/dashboards/gyro.json"
	rulesFile     = "deploy/prometheus/alerts.yml"
	alertsFile    = "docs/alerts.md"
)

func generate(page []byte, n naming) (map[string][]byte, error) {
	list, err := readFamilies(page)
	if err != nil {
		return nil, err
	}
	var rows []row
	if err := load("panels.yaml", &rows); err != nil {
		return nil, err
	}
	var alerts []alert
	if err := load("alerts.yaml", &alerts); err != nil {
		return nil, err
	}
	d, err := newDashboard(rows, list)
	if err != nil {
		return nil, err
	}
	var board bytes.Buffer
	e := json.NewEncoder(&board)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return nil, err
	}
	rules, err := newRules(alerts, list, n)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(rules)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		dashboardFile: board.Bytes(),
		rulesFile:     append([]byte("# Made by tools/dashboard. docs/alerts.md explains the alerts.\n"), text...),
		alertsFile:    alertsPage(alerts, list),
	}, nil
}

func load(name string, v any) error {
	data, err := sources.ReadFile(name)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(data, v)
}
