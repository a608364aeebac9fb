package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"number": Number}).Parse(page))

// HTML is the page with charts. It loads nothing.
func (r *Report) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, struct {
		*Report
		Charts []chart
	}{r, r.charts()})
	return b.Bytes(), err
}

type chart struct {
	Title  string
	X, Y   string // titles of the axes
	Lines  []line
	Phases []phaseStart // where phases begin, on the axis of time
	Log    bool         // the vertical axis is logarithmic

	right, top float64
	low        float64 // of a logarithmic axis
}

type line struct {
	Name   string
	Points []Point
}

type phaseStart struct {
	At   float64
	Name string
}

// The area of a chart, in units of its SVG.
const (
	chartWidth, chartHeight = 760.0, 240.0
	marginLeft, marginRight = 72.0, 16.0
	marginTop, marginBottom = 20.0, 36.0
)

func (r *Report) charts() []chart {
	var list []chart
	if len(r.Samples) > 1 {
		var phases []phaseStart
		for i, s := range r.Samples {
			if i == 0 || s.Phase != r.Samples[i-1].Phase {
				phases = append(phases, phaseStart{s.At, s.Phase})
			}
		}
		over := func(title, unit string, names []string, values func(Sample) []float64) {
			c := chart{Title: title, X: "seconds", Y: unit, Phases: phases, Lines: make([]line, len(names))}
			for i, name := range names {
				c.Lines[i].Name = name
			}
			for _, s := range r.Samples {
				for i, v := range values(s) {
					c.Lines[i].Points = append(c.Lines[i].Points, Point{s.At, v})
				}
			}
			list = append(list, c.scaled())
		}
		over("Connections", "connections", []string{"subscribed", "waiting to come back"}, func(s Sample) []float64 {
			return []float64{float64(s.Live), float64(s.Waiting)}
		})
		over("Deliveries", "per second", []string{"deliveries"}, func(s Sample) []float64 { return []float64{s.Rate} })
		over("Processors", "processors", []string{"nodes", "Redis", "clients and publisher", "rest of the machine"}, func(s Sample) []float64 {
			return []float64{s.Servers, s.Redis, s.Load, s.Kernel}
		})
		over("Memory taken from the machine", "MB", []string{"memory"}, func(s Sample) []float64 { return []float64{float64(s.Memory >> 20)} })
	}
	for _, s := range r.Sections {
		if len(s.Curves) == 0 {
			continue
		}
		c := chart{Title: s.Title + ": time of delivery by rate", X: "deliveries per second", Y: "p99, ms", Log: true}
		for _, curve := range s.Curves {
			c.Lines = append(c.Lines, line(curve))
		}
		list = append(list, c.scaled())
	}
	return list
}

func (c chart) scaled() chart {
	c.low = math.Inf(1)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			c.right, c.top = max(c.right, p.X), max(c.top, p.Y)
			if p.Y > 0 {
				c.low = min(c.low, p.Y)
			}
		}
	}
	c.right = max(c.right, 1)
	if c.Log {
		c.low = math.Pow(10, math.Floor(math.Log10(min(c.low, max(c.top, 1)))))
		c.top = math.Pow(10, math.Ceil(math.Log10(max(c.top, 10*c.low))))
		return c
	}
	c.top = nice(c.top)
	return c
}

// nice rounds v up to 1, 2 or 5 times a power of ten.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5, 10} {
		if v <= f*unit {
			return f * unit
		}
	}
	return 10 * unit
}

func (c *chart) x(v float64) float64 {
	return marginLeft + v/c.right*(chartWidth-marginLeft-marginRight)
}

func (c *chart) y(v float64) float64 {
	part := v / c.top
	if c.Log {
		part = math.Log10(max(v, c.low)/c.low) / math.Log10(c.top/c.low)
	}
	return chartHeight - marginBottom - part*(chartHeight-marginTop-marginBottom)
}

func (c chart) SVG() template.HTML {
	var b strings.Builder
	escape := template.HTMLEscapeString
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, chartWidth, chartHeight, escape(c.Title))
	for _, v := range c.ticks() {
		y := c.y(v)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			marginLeft, y, chartWidth-marginRight, y, marginLeft-6, y+4, Number(v))
	}
	for i := range 5 {
		v := c.right * float64(i) / 4
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, c.x(v), chartHeight-marginBottom+16, Number(math.Round(v)))
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text><text x="4" y="12">%s</text>`,
		chartWidth-marginRight, chartHeight-4, escape(c.X), escape(c.Y))
	for _, m := range c.Phases {
		fmt.Fprintf(&b, `<line class="phase" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/><text class="phase" x="%.1f" y="%.1f">%s</text>`,
			c.x(m.At), marginTop, c.x(m.At), chartHeight-marginBottom, c.x(m.At)+3, marginTop+8, escape(m.Name))
	}
	for i, l := range c.Lines {
		fmt.Fprintf(&b, `<polyline class="c%d" points="`, i)
		for _, p := range l.Points {
			fmt.Fprintf(&b, "%.1f,%.1f ", c.x(p.X), c.y(p.Y))
		}
		b.WriteString(`"/>`)
		if len(l.Points) <= 40 {
			for _, p := range l.Points {
				fmt.Fprintf(&b, `<circle class="c%d" cx="%.1f" cy="%.1f" r="3"><title>%s: %s, %s</title></circle>`, i, c.x(p.X), c.y(p.Y),
					escape(l.Name), Number(p.X), Number(p.Y))
			}
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // all texts are escaped above
}

// ticks are the lines on the vertical axis.
func (c *chart) ticks() (list []float64) {
	if c.Log {
		for v := c.low; v <= c.top*1.01; v *= 10 {
			list = append(list, v)
		}
		return list
	}
	for i := range 5 {
		list = append(list, c.top*float64(i)/4)
	}
	return list
}
