// Package alertrules has the form of alert rules for Prometheus.
package alertrules

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// File is a file with rules.
type File struct {
	Groups []Group `json:"groups"`
}

// Group is rules that are evaluated together.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// Rule is an alert.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Read returns the rules of a file.
func Read(data []byte) (all []Rule, err error) {
	var f File
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, err
	}
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// Hold is how long the expression must have a series until the rule fires.
func (r *Rule) Hold() (time.Duration, error) {
	if r.For == "" {
		return 0, nil
	}
	d, err := model.ParseDuration(r.For)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.Alert, err)
	}
	return time.Duration(d), nil
}

// Selected returns the names of the metrics that an expression asks for.
func Selected(e parser.Expr) (names []string) {
	for _, matchers := range parser.ExtractSelectors(e) {
		for _, m := range matchers {
			if m.Name == "__name__" {
				names = append(names, m.Value)
			}
		}
	}
	return names
}
