// Package report has the results of a run: as a table for people, as JSON for programs, and as a page with charts.
package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gyrohq/gyro/e2e/million/internal/books"
)

type Report struct {
	Title      string    `json:"title"`
	Began      time.Time `json:"began"`
	Seconds    float64   `json:"seconds"`
	Processors int       `json:"processors"`
	Memory     int64     `json:"memory"` // bytes that were available
	Kernel     string    `json:"kernel"`
	Conns      int       `json:"conns"`
	Nodes      int       `json:"nodes"`
	Shards     int       `json:"shards"`
	Loads      int       `json:"loads"`

	Sections []Section `json:"sections"`
	Samples  []Sample  `json:"samples"`

	Recoverable books.Book        `json:"recoverable"`
	Plain       books.Book        `json:"plain"`
	Pings       uint64            `json:"pings"`
	Cuts        map[string]uint64 `json:"cuts"`
	Refusals    map[string]uint64 `json:"refusals"`
	Returned    uint64            `json:"returned"`
	Recovered   uint64            `json:"recovered"`
	Unrecovered uint64            `json:"unrecovered"`
	Failure     string            `json:"failure,omitempty"`
}

type Section struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Seconds float64 `json:"seconds"`
	Rows    []Row   `json:"rows"`
	Curves  []Curve `json:"curves,omitempty"`
	Failure string  `json:"failure,omitempty"`
}

type Row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Text  string  `json:"text,omitempty"`
}

// Curve: deliveries per second, and the 99th percentile of their times in milliseconds.
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

type Sample struct {
	At      float64 `json:"at"` // seconds since the beginning
	Phase   string  `json:"phase"`
	Live    int     `json:"live"`
	Waiting int     `json:"waiting"`
	Rate    float64 `json:"rate"` // deliveries per second
	Servers float64 `json:"servers"`
	Redis   float64 `json:"redis"`
	Load    float64 `json:"load"`
	Kernel  float64 `json:"kernel"`
	Memory  int64   `json:"memory"` // bytes taken from the machine
}

// Find returns the value of a row; false if there is none.
func (r *Report) Find(section, row string) (float64, bool) {
	for _, s := range r.Sections {
		for _, one := range s.Rows {
			if s.Name == section && one.Name == row {
				return one.Value, true
			}
		}
	}
	return 0, false
}

// Write writes report.txt, report.json and report.html to a folder.
func (r *Report) Write(folder string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	page, err := r.HTML()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"report.txt": []byte(r.Text()), "report.json": text, "report.html": page} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil { //nolint:gosec // results are for everybody
			return err
		}
	}
	return nil
}

func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, %.0f s; %d processors, %d MB of memory, Linux %s\n", r.Title, r.Began.UTC().Format(time.RFC3339), r.Seconds,
		r.Processors, r.Memory>>20, r.Kernel)
	for _, s := range r.All() {
		fmt.Fprintf(&b, "\n%s", s.Title)
		if s.Seconds > 0 {
			fmt.Fprintf(&b, " (%.0f s)", s.Seconds)
		}
		b.WriteByte('\n')
		width := 0
		for _, row := range s.Rows {
			width = max(width, utf8.RuneCountInString(row.Name))
		}
		for _, row := range s.Rows {
			fmt.Fprintf(&b, "  %-*s  ", width, row.Name)
			if row.Text != "" {
				fmt.Fprintln(&b, row.Text)
				continue
			}
			fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%14s %s", Number(row.Value), row.Unit), " "))
		}
		if s.Failure != "" {
			fmt.Fprintf(&b, "  FAILED: %s\n", s.Failure)
		}
	}
	if r.Failure != "" {
		fmt.Fprintf(&b, "\nFAILED: %s\n", r.Failure)
	}
	return b.String()
}

// All returns the sections, and one with the books of the whole run.
func (r *Report) All() []Section {
	last := Section{Name: "books", Title: "Books of every message"}
	for _, kind := range []struct {
		name string
		b    books.Book
	}{{"channels with a history: ", r.Recoverable}, {"channels without: ", r.Plain}} {
		for _, row := range []Row{
			{Name: "delivered", Value: float64(kind.b.Received)}, {Name: "lost", Value: float64(kind.b.Lost)}, {Name: "twice", Value: float64(kind.b.Twice)},
			{Name: "out of order", Value: float64(kind.b.Late)}, {Name: "missing, and told so", Value: float64(kind.b.Told)}, {Name: "of others", Value: float64(kind.b.Foreign)},
		} {
			row.Name = kind.name + row.Name
			last.Rows = append(last.Rows, row)
		}
	}
	last.Rows = append(last.Rows, Row{Name: "pings answered", Value: float64(r.Pings)}, Row{Name: "came back", Value: float64(r.Returned)},
		Row{Name: "came back and recovered", Value: float64(r.Recovered)}, Row{Name: "came back and were told of a loss", Value: float64(r.Unrecovered)})
	for _, list := range []struct {
		name   string
		counts map[string]uint64
	}{{"cut: ", r.Cuts}, {"refused: ", r.Refusals}} {
		for _, why := range slices.Sorted(maps.Keys(list.counts)) {
			last.Rows = append(last.Rows, Row{Name: list.name + why, Value: float64(list.counts[why])})
		}
	}
	return append(slices.Clip(r.Sections), last)
}

// Number has separators of thousands, and decimals if v is small.
func Number(v float64) string {
	decimals := 0
	switch abs := max(v, -v); {
	case abs == float64(int64(abs)) || abs >= 100:
	case abs >= 10:
		decimals = 1
	case abs >= 1:
		decimals = 2
	default:
		decimals = 3
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return sign + whole + rest
}
