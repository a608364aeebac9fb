package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

type row struct {
	Row    string  `json:"row"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Title string `json:"title"`
	Kind  string `json:"kind"` // stat; else a graph over time
	Unit  string `json:"unit"`
	Note  string `json:"note"`
	// Stacked graphs add up. Whole is a share that should be 1.
	Stacked bool    `json:"stacked"`
	Whole   bool    `json:"whole"`
	Queries []query `json:"queries"`
}

type query struct {
	Expr   string `json:"expr"`
	Legend string `json:"legend"`
}

type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

const choice = `cluster=~"$cluster",job=~"$job",instance=~"$node"`

func newDashboard(rows []row, list []family) (object, error) {
	if rest := others(rows, list); len(rest.Panels) > 0 {
		rows = append(rows, rest)
	}
	var panels []object
	y := 0
	add := func(o object, x, w, h int) {
		o["id"], o["gridPos"] = len(panels)+1, object{"x": x, "y": y, "w": w, "h": h}
		panels = append(panels, o)
	}
	for _, r := range rows {
		add(object{"type": "row", "title": r.Row, "collapsed": false, "panels": []object{}}, 0, 24, 1)
		y++
		x, height := 0, 0
		for _, p := range r.Panels {
			w, h := 8, 8
			if p.Kind == "stat" {
				w, h = 4, 4
			}
			if x+w > 24 || height != 0 && h != height {
				x, y = 0, y+height
			}
			height = h
			o, err := p.model(list)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", r.Row, p.Title, err)
			}
			add(o, x, w, h)
			x += w
		}
		y += height
	}
	return object{
		"uid": "gyro", "title": "Gyro", "tags": []string{"gyro"}, "schemaVersion": 39, "version": 1, "editable": true,
		"refresh": "10s", "time": object{"from": "now-30m", "to": "now"}, "timezone": "browser", "graphTooltip": 1,
		"annotations": object{"list": []object{}}, "links": []object{}, "templating": object{"list": variables}, "panels": panels,
	}, nil
}

var variables = []object{
	{
		"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{},
		"hide": 0, "refresh": 1, "multi": false, "includeAll": false,
	},
	{
		"name": "prefix", "label": "Prefix", "description": "prometheus.namespace of the nodes", "type": "custom", "query": "gyro,centrifugo",
		"current": object{"selected": true, "text": "gyro", "value": "gyro"}, "hide": 0, "multi": false, "includeAll": false, "allowCustomValue": true,
	},
	choose("cluster", "Cluster", ""),
	choose("job", "Job", `cluster=~"$cluster"`),
	choose("node", "Node", `cluster=~"$cluster",job=~"$job"`),
}

// choose returns the variable for a label of nodes, node for instance; a user may choose several values. among selects
// the nodes with the values on offer. Targets without the label match all values.
func choose(name, title, among string) object {
	of := cmp.Or(map[string]string{"node": "instance"}[name], name)
	return object{
		"name": name, "label": title, "type": "query", "datasource": source,
		"query":   object{"query": "label_values(${prefix}_node_build{" + among + "}, " + of + ")", "refId": name},
		"current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		"hide":    0, "refresh": 2, "multi": true, "includeAll": true, "allValue": ".*", "sort": 1,
	}
}

func (p *panel) model(list []family) (object, error) {
	if p.Title == "" || len(p.Queries) == 0 || len(p.Queries) > 26 {
		return nil, fmt.Errorf("it has no title, no query or too many")
	}
	var targets []object
	for i, q := range p.Queries {
		expr := strings.ReplaceAll(qualify(q.Expr, "${prefix}", choice, list), "$i", "$__rate_interval")
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": expr, "legendFormat": q.Legend})
	}
	o := object{"title": p.Title, "datasource": source, "targets": targets}
	if p.Note != "" {
		o["description"] = p.Note
	}
	defaults := object{"unit": cmp.Or(p.Unit, "short")}
	if p.Kind == "stat" {
		steps := []object{{"color": "green", "value": nil}}
		if p.Whole {
			steps = []object{{"color": "red", "value": nil}, {"color": "green", "value": 1}}
		}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
		o["type"], o["options"] = "stat", object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "value", "graphMode": "area",
		}
	} else {
		stacking := "none"
		if p.Stacked {
			stacking = "normal"
		}
		defaults["custom"] = object{"fillOpacity": 10, "showPoints": "never", "stacking": object{"mode": stacking}}
		o["type"], o["options"] = "timeseries", object{
			"legend":  object{"displayMode": "list", "placement": "bottom"},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	}
	o["fieldConfig"] = object{"defaults": defaults, "overrides": []object{}}
	return o, nil
}

func others(rows []row, list []family) row {
	var text strings.Builder
	for _, r := range rows {
		for _, p := range r.Panels {
			for _, q := range p.Queries {
				text.WriteString(q.Expr + "\n")
			}
		}
	}
	rest := row{Row: "Others"}
	for _, f := range list {
		shown := regexp.MustCompile(`\b` + f.name + `(_bucket|_sum|_count)?\b`).MatchString(text.String())
		if !shown && !twin(list, f) {
			rest.Panels = append(rest.Panels, f.panel())
		}
	}
	return rest
}

func (f *family) panel() panel {
	p := panel{Title: f.name, Note: f.meaning}
	if strings.HasSuffix(f.name, "_seconds") || strings.HasSuffix(f.name, "_seconds_histogram") {
		p.Unit = "s"
	}
	by, legend := "", f.name
	if len(f.labels) > 0 {
		by, legend = strings.Join(f.labels, ", "), "{{"+strings.Join(f.labels, "}} {{")+"}}"
	}
	switch f.kind {
	case "counter":
		p.Unit = "cps"
		p.Queries = []query{{"sum by (" + by + ") (rate(" + f.name + "[$i]))", legend}}
	case "histogram":
		if by != "" {
			by = ", " + by
		}
		p.Queries = []query{{"histogram_quantile(0.99, sum by (le" + by + ") (rate(" + f.name + "_bucket[$i])))", legend + " 99%"}}
	default:
		p.Queries = []query{{f.name, "{{instance}} " + legend}}
	}
	return p
}
