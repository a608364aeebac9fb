package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/books"
)

func example() *Report {
	r := &Report{
		Title: "20 connections & more", Began: time.Unix(0, 0), Seconds: 12, Processors: 2, Memory: 1 << 30, Kernel: "6.1", Conns: 20,
		Sections: []Section{
			{Name: "connect", Title: "Connect all", Seconds: 1, Rows: []Row{{Name: "time to connect", Value: 1.25, Unit: "s"}, {Name: "limited by", Text: "<nothing>"}}},
			{Name: "publish", Title: "Publish", Curves: []Curve{{"1 subscribers", []Point{{1000, 3}, {20000, 250}}}, {"none", nil}}, Failure: "no <good>"},
		},
		Recoverable: books.Book{Received: 1234567, Lost: 1}, Cuts: map[string]uint64{"3000 x": 2}, Failure: "lost",
	}
	for i := range 30 {
		r.Samples = append(r.Samples, Sample{At: float64(i), Phase: []string{"connect", "publish"}[i/15], Live: i, Servers: 0.5, Memory: int64(i) << 20})
	}
	return r
}

func TestText(t *testing.T) {
	text := example().Text()
	for _, want := range []string{"Connect all (1 s)", "time to connect            1.25 s", "limited by       <nothing>", "FAILED: no <good>",
		"channels with a history: delivered", "1,234,567", "cut: 3000 x", "FAILED: lost"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 1000: "1,000", 1234567: "1,234,567", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 1234.5: "1,234",
		-1234: "-1,234", -0.5: "-0.500", 999999.7: "1,000,000"} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %q, not %q", v, got, want)
		}
	}
}

// TestHTML: the page is well-formed, loads nothing, and its charts lie within their areas.
func TestHTML(t *testing.T) {
	for _, r := range []*Report{example(), {}} {
		page, err := r.HTML()
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(src|href)=|url\(|https?:|<nothing>|NaN|Inf`).Match(page) {
			t.Errorf("it loads something, or does not escape, or has no numbers:\n%s", page)
		}
		for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAll(page, -1) {
			for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
				if _, err := d.Token(); err == io.EOF { //nolint:errorlint // as the decoder documents
					break
				} else if err != nil {
					t.Fatalf("%v in %s", err, svg)
				}
			}
			for _, c := range charts(t, svg) {
				if c[0] < 0 || c[0] > chartWidth || c[1] < 0 || c[1] > chartHeight {
					t.Errorf("a point at %v", c)
				}
			}
		}
	}
	if n := len(example().charts()); n != 5 {
		t.Errorf("%d charts", n)
	}
}

func charts(t *testing.T, svg []byte) (list [][2]float64) {
	t.Helper()
	for _, line := range regexp.MustCompile(`points="([^"]*)"`).FindAllSubmatch(svg, -1) {
		for _, pair := range strings.Fields(string(line[1])) {
			var p [2]float64
			if err := json.Unmarshal([]byte("["+pair+"]"), &p); err != nil {
				t.Fatal(err)
			}
			list = append(list, p)
		}
	}
	return list
}

func TestWrite(t *testing.T) {
	folder := t.TempDir()
	if err := example().Write(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if v, ok := back.Find("connect", "time to connect"); !ok || v != 1.25 {
		t.Error(v, ok)
	}
	if _, ok := back.Find("connect", "nothing"); ok {
		t.Error("a row that is not there was found")
	}
}
