//go:build linux

package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// alert is what tools/firing tells of a rule and a series, in Unix milliseconds.
type alert struct {
	Alert, Severity      string
	Labels               map[string]string
	Pending, Fires, Last int64
}

func (r *run) alerts(recording string) error {
	out, err := exec.Command(r.firer, "-rules", "../../deploy/prometheus/alerts.yml", "-step", scrapePause.String(), recording).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("tools/firing: %w: %s", err, exit.Stderr)
	}
	if err != nil {
		return err
	}
	var list []alert
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		var a alert
		if err := lines.Decode(&a); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		list = append(list, a)
	}
	for i, w := range r.rows {
		end := time.Now()
		if i+1 < len(r.rows) {
			end = r.rows[i+1].begin
		}
		w.alerts = told(list, w.begin, end)
	}
	return nil
}

// told has the alerts that began to be pending between two times, and those that still fire: each once, with the labels
// of its series.
func told(list []alert, begin, end time.Time) (lines []string) {
	var names []string
	sums, of := make(map[string]alert), make(map[string][]string)
	for _, a := range list {
		before := a.Pending < begin.UnixMilli()
		if before && (a.Fires == 0 || a.Last < begin.UnixMilli()) || a.Pending >= end.UnixMilli() {
			continue
		}
		sum, known := sums[a.Alert]
		if !known {
			names, sum = append(names, a.Alert), a
		}
		sum.Pending, sum.Last = min(sum.Pending, a.Pending), max(sum.Last, a.Last)
		if a.Fires > 0 && (sum.Fires == 0 || a.Fires < sum.Fires) {
			sum.Fires = a.Fires
		}
		sums[a.Alert] = sum
		if about := about(a.Labels); !slices.Contains(of[a.Alert], about) {
			of[a.Alert] = append(of[a.Alert], about)
		}
	}
	seconds := func(ms int64) float64 { return float64(ms-begin.UnixMilli()) / 1000 }
	for _, name := range names {
		a := sums[name]
		what := "pending only"
		if a.Fires > 0 {
			what = fmt.Sprintf("fires at %.0f s", seconds(a.Fires))
		}
		slices.Sort(of[name])
		lines = append(lines, fmt.Sprintf("%s (%s): pending at %.0f s, %s, until %.0f s; %s", name, a.Severity, seconds(a.Pending), what, seconds(a.Last), strings.Join(of[name], ", ")))
	}
	return lines
}

func about(labels map[string]string) string {
	var list []string
	for name, value := range labels {
		if !slices.Contains([]string{"__name__", "cluster", "job"}, name) && value != "" {
			list = append(list, name+"="+value)
		}
	}
	slices.Sort(list)
	if list == nil {
		return "the cluster"
	}
	return strings.Join(list, " ")
}
