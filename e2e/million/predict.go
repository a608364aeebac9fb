//go:build linux

package million

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/gyrohq/gyro/e2e/million/internal/report"
	"github.com/gyrohq/gyro/e2e/million/internal/sizing"
)

// Predict fits a model on the report.json of a run, and returns as text the resources of another size while its clients
// wait. With the report.json of such a run, whose size counts then, the text compares.
func Predict(fitted, against string, conns, nodes, shards int) (string, error) {
	small, err := read(fitted)
	if err != nil {
		return "", err
	}
	m, err := sizing.Fit(small)
	if err != nil {
		return "", fmt.Errorf("%s: %w", fitted, err)
	}
	model, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return "", err
	}
	large := &report.Report{Conns: conns, Nodes: nodes, Shards: shards}
	if against != "" {
		if large, err = read(against); err != nil {
			return "", err
		}
	}
	rows, err := m.Compare(large)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "model of %s: %s\n\n%d connections, %d nodes, %d Redis shards, while clients wait:\n", small.Title, model, large.Conns, large.Nodes, large.Shards)
	for _, r := range rows {
		fmt.Fprintf(&b, "  %-26s %14s %-10s", r.Name, report.Number(r.Predicted), r.Unit)
		if r.Measured != 0 {
			fmt.Fprintf(&b, "  measured %14s, off by %+.0f%%", report.Number(r.Measured), 100*r.Off())
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func read(file string) (*report.Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(report.Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}
