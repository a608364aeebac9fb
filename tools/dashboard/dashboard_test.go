package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func families(t *testing.T) []family {
	t.Helper()
	list, err := readFamilies(read(t, "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// documented are the series of docs/metrics.md, and those of the process, of the Go runtime and of Prometheus itself.
func documented(t *testing.T) series {
	t.Helper()
	all := series{"up": nil}
	for _, f := range families(t) {
		if name := "gyro_" + f.name; f.kind == "histogram" {
			all[name+"_bucket"] = append(slices.Clone(f.labels), "le")
			all[name+"_sum"], all[name+"_count"] = f.labels, f.labels
		} else {
			all[name] = f.labels
		}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	process, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range process {
		all[f.GetName()] = nil
	}
	return all
}

func TestCheck(t *testing.T) {
	all := documented(t)
	for expr, ok := range map[string]bool{
		`sum by (instance) (gyro_node_num_clients)`:                      true,
		`rate(gyro_client_command_duration_seconds_histogram_count[5m])`: true,
		`sum(`:                                   false,
		`gyro_node_num_client`:                   false,
		`gyro_node_num_clients{transport="x"}`:   false,
		`sum by (le) (gyro_node_num_clients)`:    false,
		`gyro_node_pub_sub_lag_seconds`:          false, // a histogram has other series
		`process_open_fds + process_made_up_fds`: false,
	} {
		if _, err := all.check(expr); (err == nil) != ok {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

// TestQualify: names of metrics are found wherever they are, labels and functions are not.
func TestQualify(t *testing.T) {
	for expr, want := range map[string]string{
		`node_ready == 0`: `p_node_ready{m} == 0`,
		`sum by (limit) (rate(client_refusals_total{limit="queue_size"}[5m]))`: `sum by (limit) (rate(p_client_refusals_total{m,limit="queue_size"}[5m]))`,
		`rate(node_pub_sub_lag_seconds_bucket[$i])`:                            `rate(p_node_pub_sub_lag_seconds_bucket{m}[$i])`,
		`process_open_fds > 1`:                                                 `process_open_fds{m} > 1`,
	} {
		if got := qualify(expr, "p", "m", families(t)); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// TestGenerated: the files are those that the generator makes.
func TestGenerated(t *testing.T) {
	files, err := generate(read(t, "docs/metrics.md"), shipped)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if string(read(t, name)) != string(data) {
			t.Errorf("%s is stale: run make generate", name)
		}
	}
}

// board is what is checked of the JSON model of Grafana.
type board struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct{ List []struct{ Name string } }
	Panels        []boardPanel
}

type boardPanel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, LegendFormat string }
}

var (
	variable = regexp.MustCompile(`\$\{?(\w+)\}?`)
	label    = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// queries are the expressions of all panels and alerts.
func queries(t *testing.T) []query {
	t.Helper()
	list := panelQueries(t)
	for _, r := range theRules(t) {
		list = append(list, query{Expr: r.Expr})
	}
	return list
}

// panelQueries are the expressions of all panels, with the variables in them replaced.
func panelQueries(t *testing.T) (list []query) {
	t.Helper()
	var d board
	if err := json.Unmarshal(read(t, dashboardFile), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `{cluster=~"$cluster",job=~"$job",instance=~"$node"`) {
				t.Errorf("%s does not heed the choice of clusters, jobs and nodes: %s", p.Title, target.Expr)
			}
			list = append(list, query{variable.ReplaceAllStringFunc(target.Expr, func(v string) string {
				switch name := variable.FindStringSubmatch(v)[1]; name {
				case "__rate_interval":
					return "5m"
				case "prefix":
					return "gyro"
				case "cluster", "job", "node":
					return ".*"
				default:
					t.Errorf("%s: there is no variable %s", p.Title, name)
					return ""
				}
			}), target.LegendFormat})
		}
	}
	return list
}

// TestQueries: panels and alerts ask for what there is, legends name labels that the result has, and every metric is shown.
func TestQueries(t *testing.T) {
	all, shown := documented(t), make(map[string]bool)
	for _, q := range queries(t) {
		names, err := all.check(q.Expr)
		if err != nil {
			t.Errorf("%s: %v", q.Expr, err)
		}
		for _, name := range names {
			shown[name] = true
			for _, m := range label.FindAllStringSubmatch(q.Legend, -1) {
				if all.has(name, m[1]) != nil || strings.Contains(q.Expr, " by ") && !regexp.MustCompile(`by \([^)]*\b`+m[1]+`\b`).MatchString(q.Expr) {
					t.Errorf("the legend names %s, which %s does not have", m[1], q.Expr)
				}
			}
		}
	}
	list := families(t)
	for _, f := range list {
		if name := "gyro_" + f.name; !shown[name] && !shown[name+"_bucket"] && !shown[name+"_count"] && !twin(list, f) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestGrid: panels do not overlap, and Grafana can tell them apart.
func TestGrid(t *testing.T) {
	var d board
	if err := json.Unmarshal(read(t, dashboardFile), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 || len(d.Templating.List) != 5 {
		t.Errorf("%+v", d)
	}
	taken, ids := make(map[[2]int]string), make(map[int]bool)
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s: the id %d is not its own, or it is empty", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s is not in the grid: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s overlaps %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestProvisioning: Prometheus finds the rules, Grafana finds Prometheus and the dashboards.
func TestProvisioning(t *testing.T) {
	var sources struct {
		APIVersion  int
		Datasources []struct {
			UID, Type, URL string
			JSONData       struct{ TimeInterval string }
		}
	}
	var providers struct {
		APIVersion int
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	var services struct {
		Services map[string]struct{ Volumes, Ports []string }
	}
	var scrapes struct {
		Global struct {
			Interval string `json:"scrape_interval"`
		}
		Rules []string `json:"rule_files"`
		Jobs  []struct {
			Name   string `json:"job_name"`
			Static []struct {
				Labels map[string]string
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	for file, v := range map[string]any{
		"deploy/grafana/provisioning/datasources/prometheus.yaml": &sources, "deploy/grafana/provisioning/dashboards/gyro.yaml": &providers,
		"deploy/compose/compose.yaml": &services, "deploy/prometheus/prometheus.yml": &scrapes,
	} {
		if err := yaml.Unmarshal(read(t, file), v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if len(sources.Datasources) != 1 || len(providers.Providers) != 1 || sources.APIVersion != 1 || providers.APIVersion != 1 {
		t.Fatalf("%+v %+v", sources, providers)
	}
	d, grafana, prom := sources.Datasources[0], services.Services["grafana"], services.Services["prometheus"]
	if d.URL != "http://prometheus:9090" || d.Type != "prometheus" {
		t.Errorf("the data source is %+v", d)
	}
	if d.JSONData.TimeInterval != scrapes.Global.Interval {
		t.Errorf("Prometheus scrapes every %s, Grafana thinks every %s", scrapes.Global.Interval, d.JSONData.TimeInterval)
	}
	for _, want := range []string{"../grafana/dashboards:" + providers.Providers[0].Options.Path + ":ro", "../grafana/provisioning:/etc/grafana/provisioning:ro"} {
		if !slices.Contains(grafana.Volumes, want) {
			t.Errorf("Grafana has no volume %s", want)
		}
	}
	if !slices.Contains(prom.Volumes, "../prometheus:/etc/prometheus:ro") || !slices.Equal(scrapes.Rules, []string{filepath.Base(rulesFile)}) {
		t.Errorf("Prometheus has the volumes %v and the rules %v", prom.Volumes, scrapes.Rules)
	}
	for _, j := range scrapes.Jobs {
		if len(j.Static) != 1 || j.Static[0].Labels["cluster"] == "" {
			t.Errorf("the job %s has no label that names the cluster", j.Name)
		}
	}
	for _, p := range slices.Concat(grafana.Ports, prom.Ports) {
		if !strings.HasPrefix(p, "127.0.0.1:") {
			t.Errorf("published on %s", p)
		}
	}
}
