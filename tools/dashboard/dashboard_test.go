package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	compose = "../../deploy/compose"
	page    = "../../docs/metrics.md"
)

// dashboard is what is checked of the JSON model of Grafana.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  source
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
	}
}

type source struct{ Type, UID string }

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// families are the labels of all metrics by name: those of docs/metrics.md, and those of the process and of the
// Go runtime. A histogram is there as its series.
func families(t *testing.T) map[string][]string {
	t.Helper()
	list := make(map[string][]string)
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\|")
	for _, m := range row.FindAllStringSubmatch(string(read(t, page)), -1) {
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		labels = append(labels, "instance", "job")
		if name := "gyro_" + m[1]; m[2] == "histogram" {
			list[name+"_bucket"] = append(slices.Clone(labels), "le")
			list[name+"_sum"], list[name+"_count"] = labels, labels
		} else {
			list[name] = labels
		}
	}
	if len(list) < 50 {
		t.Fatalf("%d families on the page", len(list))
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	process, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range process {
		list[f.GetName()] = []string{"instance", "job"}
	}
	return list
}

// query checks an expression: its syntax, and that there are its metrics and their labels. It returns the
// metrics' names.
func query(families map[string][]string, expr string) (names []string, err error) {
	e, err := parser.ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	has := func(node parser.Node, labels ...string) error {
		for _, s := range parser.ExtractSelectors(node.(parser.Expr)) {
			for _, m := range s {
				if m.Name == "__name__" {
					for _, l := range labels {
						if !slices.Contains(families[m.Value], l) {
							return fmt.Errorf("%s has no label %s", m.Value, l)
						}
					}
				}
			}
		}
		return nil
	}
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			if _, ok := families[n.Name]; !ok {
				err = fmt.Errorf("there is no metric %s", n.Name)
			}
			names = append(names, n.Name)
			for _, m := range n.LabelMatchers {
				if wrong := has(n, m.Name); m.Name != "__name__" && wrong != nil {
					err = wrong
				}
			}
		case *parser.AggregateExpr:
			if wrong := has(n.Expr, n.Grouping...); wrong != nil {
				err = wrong
			}
		}
		return nil
	})
	return names, err
}

func TestQuery(t *testing.T) {
	list := families(t)
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
		if _, err := query(list, expr); (err == nil) != ok {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

// TestAlerts: what the page tells to watch can be watched.
func TestAlerts(t *testing.T) {
	list := families(t)
	alert := regexp.MustCompile("(?m)^\\| [^|`]+ \\| `(gyro_|sum|increase|histogram_quantile)([^`|]*)`")
	found := alert.FindAllStringSubmatch(string(read(t, page)), -1)
	if len(found) < 10 {
		t.Fatalf("%d alerts found", len(found))
	}
	for _, m := range found {
		if _, err := query(list, m[1]+m[2]); err != nil {
			t.Errorf("%s: %v", m[1]+m[2], err)
		}
	}
}

// TestDashboards checks the dashboards, and that they show every metric of the page.
func TestDashboards(t *testing.T) {
	files, err := filepath.Glob(compose + "/grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	list, shown := families(t), make(map[string]bool)
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal(read(t, file), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 {
			t.Errorf("%s has no uid, title or schemaVersion", file)
		}
		var variables []string
		for _, v := range d.Templating.List {
			variables = append(variables, v.Name)
		}
		taken := make(map[[2]int]string)
		ids := make(map[int]bool)
		for _, p := range d.Panels {
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: the id %d is not its own", p.Title, p.ID)
			}
			ids[p.ID] = true
			p.place(t, taken)
			if p.Type != "row" {
				p.check(t, list, variables, shown)
			}
		}
	}
	for name := range list {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		_, twin := list[name+"_histogram_bucket"]
		if strings.HasPrefix(name, "gyro_") && !twin && !shown[name] && !shown[base+"_bucket"] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// place takes the panel's part of the grid.
func (p *panel) place(t *testing.T, taken map[[2]int]string) {
	t.Helper()
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

var (
	variable = regexp.MustCompile(`\$\{?(\w+)\}?`)
	label    = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// check checks what a panel asks for.
func (p *panel) check(t *testing.T, families map[string][]string, variables []string, shown map[string]bool) {
	t.Helper()
	if p.Title == "" || len(p.Targets) == 0 {
		t.Errorf("panel %d has no title or no query", p.ID)
	}
	refs := make(map[string]bool)
	for _, target := range p.Targets {
		if target.RefID == "" || refs[target.RefID] {
			t.Errorf("%s: the refId %q is not its own", p.Title, target.RefID)
		}
		refs[target.RefID] = true
		if want := (source{"prometheus", "${datasource}"}); target.Datasource != want || p.Datasource != want {
			t.Errorf("%s: data source %v", p.Title, target.Datasource)
		}
		if !strings.Contains(target.Expr, `{instance=~"$node"`) {
			t.Errorf("%s does not heed the choice of nodes: %s", p.Title, target.Expr)
		}
		expr := variable.ReplaceAllStringFunc(target.Expr, func(v string) string {
			switch name := variable.FindStringSubmatch(v)[1]; {
			case name == "__rate_interval":
				return "5m"
			case !slices.Contains(variables, name):
				t.Errorf("%s: there is no variable %s", p.Title, name)
			case name == "prefix":
				return "gyro"
			}
			return ".+"
		})
		names, err := query(families, expr)
		if err != nil {
			t.Errorf("%s: %s: %v", p.Title, expr, err)
		}
		for _, name := range names {
			shown[name] = true
			for _, m := range label.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(families[name], m[1]) || strings.Contains(expr, " by ") && !regexp.MustCompile(`by \([^)]*\b`+m[1]+`\b`).MatchString(expr) {
					t.Errorf("%s: the legend names %s, which %s does not have", p.Title, m[1], expr)
				}
			}
		}
	}
}

// TestProvisioning: Grafana finds Prometheus and the dashboards.
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
	}
	for file, v := range map[string]any{
		"grafana/provisioning/datasources/prometheus.yaml": &sources, "grafana/provisioning/dashboards/gyro.yaml": &providers,
		"compose.yaml": &services, "prometheus.yml": &scrapes,
	} {
		if err := yaml.Unmarshal(read(t, filepath.Join(compose, file)), v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if len(sources.Datasources) != 1 || len(providers.Providers) != 1 || sources.APIVersion != 1 || providers.APIVersion != 1 {
		t.Fatalf("%+v %+v", sources, providers)
	}
	d, grafana := sources.Datasources[0], services.Services["grafana"]
	if _, ok := services.Services["prometheus"]; !ok || d.URL != "http://prometheus:9090" || d.Type != "prometheus" {
		t.Errorf("the data source is %+v", d)
	}
	if d.JSONData.TimeInterval != scrapes.Global.Interval {
		t.Errorf("Prometheus scrapes every %s, Grafana thinks every %s", scrapes.Global.Interval, d.JSONData.TimeInterval)
	}
	for _, want := range []string{"./grafana/dashboards:" + providers.Providers[0].Options.Path + ":ro", "./grafana/provisioning:/etc/grafana/provisioning:ro"} {
		if !slices.Contains(grafana.Volumes, want) {
			t.Errorf("Grafana has no volume %s", want)
		}
	}
	for _, p := range grafana.Ports {
		if !strings.HasPrefix(p, "127.0.0.1:") {
			t.Errorf("Grafana is published on %s", p)
		}
	}
}
