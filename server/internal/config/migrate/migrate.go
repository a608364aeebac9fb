// Package migrate tells what a configuration for Centrifugo means for Gyro.
package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Kind of a finding.
type Kind string

// Kinds in the order of the report. Gyro does not start with Refused ones.
const (
	Refused Kind = "refused" // has a value that is wrong, also in Centrifugo most often
	Unknown Kind = "unknown" // means nothing
	Ignored Kind = "ignored" // is known, and has no effect
	Differs Kind = "differs" // works, in another way
)

var titles = []struct {
	kind  Kind
	title string
}{
	{Refused, "Refused values, with which Gyro does not start"},
	{Unknown, "Unknown keys and variables, which are ignored"},
	{Ignored, "Without effect"},
	{Differs, "Works differently"},
}

// Finding is about one key.
type Finding struct {
	Kind Kind `json:"kind"`
	// Key of the configuration, or an unknown variable.
	Key string `json:"key"`
	// Where is FILE:LINE:COLUMN or a variable; empty for a default.
	Where   string `json:"where,omitempty"`
	Reason  string `json:"reason"`
	Do      string `json:"do,omitempty"` // the action to take
	Meaning string `json:"did_you_mean,omitempty"`
}

// Report has all findings.
type Report struct {
	Starts   bool      `json:"starts"` // Gyro starts with this configuration
	Findings []Finding `json:"findings"`
}

// New makes a report. further are errors of values that the examination does not find, each beginning with the key.
func New(x *config.Examination, further ...error) Report {
	r := Report{Starts: true, Findings: []Finding{}}
	for _, p := range x.Problems {
		r.problem(x, p.Key, p.Err)
	}
	for _, err := range single(further) {
		key, text, _ := strings.Cut(err.Error(), ": ")
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Key == key }) {
			r.problem(x, key, errors.New(text))
		}
	}
	for _, u := range x.Unknown {
		r.unknown(u)
	}
	for _, p := range x.Idle {
		r.add(Finding{Kind: Ignored, Key: p.Key, Where: x.Where(p.Key), Reason: sentence(p.Err.Error()), Do: "Remove it."})
	}
	for _, pair := range x.Both {
		r.add(Finding{Kind: Differs, Key: pair[0], Where: pair[0], Reason: pair[1] + " is set too, to another value, and does not count.", Do: "Remove one of them."})
	}
	r.differences(x)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { // as in the file, variables and defaults last
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(position(x, a.Key), position(x, b.Key)))
	})
	return r
}

// position orders keys as in the file.
func position(x *config.Examination, key string) int {
	line, column := x.Position(key)
	if line == 0 {
		return math.MaxInt
	}
	return line<<20 + min(column, 1<<20-1)
}

func single(errs []error) (out []error) {
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			out = append(out, single(joined.Unwrap())...)
		} else if err != nil {
			out = append(out, err)
		}
	}
	return out
}

func rank(k Kind) int {
	for i, t := range titles {
		if t.kind == k {
			return i
		}
	}
	return len(titles)
}

func (r *Report) add(f Finding) { r.Findings = append(r.Findings, f) }

func (r *Report) problem(x *config.Examination, key string, err error) {
	r.Starts = false
	r.add(Finding{Kind: Refused, Key: key, Where: x.Where(key), Reason: sentence(err.Error()), Do: "Correct the value; docs/configuration.md describes the key."})
}

func (r *Report) unknown(u config.Unknown) {
	f := Finding{Kind: Unknown, Key: u.Name, Where: u.Where, Meaning: u.Meaning, Reason: "There is no such key."}
	if u.Env {
		f.Reason = "The variable sets no key."
	}
	f.Do = "Remove it."
	if u.Meaning != "" {
		f.Do = "Correct the name, or remove it."
	}
	if do := ofExtended(strings.ToLower(u.Name)); do != "" && !u.Env {
		f.Reason, f.Do, f.Meaning = "A key of Centrifugo PRO.", do, ""
	}
	r.add(f)
}

func (r *Report) differences(x *config.Examination) {
	for _, d := range differences {
		if d.on(x.Config) {
			r.add(Finding{Kind: Differs, Key: d.key, Where: x.Where(d.key), Reason: sentence(d.what), Do: d.do})
		}
	}
	visit := func(key string, o *config.ChannelOptions) {
		for _, d := range optionDifferences {
			if d.on(o) {
				r.add(Finding{Kind: Differs, Key: key + "." + d.key, Where: x.Where(key + "." + d.key), Reason: sentence(d.what), Do: d.do})
			}
		}
	}
	visit("channel.without_namespace", &x.Config.Channel.WithoutNamespace)
	for i := range x.Config.Channel.Namespaces {
		n := &x.Config.Channel.Namespaces[i]
		visit(config.Element("channel.namespaces", i, n.Name), &n.ChannelOptions)
	}
}

// sentence makes a sentence of a message. A key at its beginning stays as it is.
func sentence(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if s != "" && s[0] >= 'a' && s[0] <= 'z' && !strings.ContainsAny(first, "_.") {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return strings.TrimSuffix(s, ".") + "."
}

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, t := range titles {
		var of []Finding
		for _, f := range r.Findings {
			if f.Kind == t.kind {
				of = append(of, f)
			}
		}
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s: %d\n\n", t.title, len(of))
		for _, f := range of {
			f.write(&b)
		}
	}
	if r.Starts {
		b.WriteString("Gyro starts with this configuration.\n")
	} else {
		b.WriteString("Gyro does not start with this configuration.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Finding) write(b *strings.Builder) {
	b.WriteString("  " + f.Key)
	if f.Where != "" && f.Where != f.Key {
		fmt.Fprintf(b, "  (%s)", f.Where)
	}
	b.WriteString("\n      " + f.Reason)
	if f.Meaning != "" {
		b.WriteString(" Did you mean " + f.Meaning + "?")
	}
	if f.Do != "" {
		b.WriteString("\n      To do: " + f.Do)
	}
	b.WriteString("\n\n")
}
