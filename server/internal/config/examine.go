package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
	"github.com/gyrohq/gyro/server/internal/config/material"
)

// Examination has all findings about a configuration at once.
type Examination struct {
	// Config has defaults in place of values that do not parse.
	Config *Config
	// Problems keep a server from starting.
	Problems []Problem
	// Unknown has unknown keys and variables.
	Unknown []Unknown
	// Idle has keys that are set without effect; Err is the reason.
	Idle []Problem
	// Both has pairs of variables for one key; the first one counts.
	Both [][2]string

	file      string
	positions schema.Positions
	report    schema.Report
}

// Problem is about the value of a key.
type Problem struct {
	// Key as in messages: channel.namespaces[0](chat).presence; may be empty.
	Key string
	Err error
}

// Unknown is an unknown key or variable.
type Unknown struct {
	Name    string // a key as messages name it, or a variable
	Env     bool   // a variable
	Where   string // as Examination.Where tells it
	Meaning string // the key that was probably suggested; may be empty
}

// maxPositions bounds the files whose keys get positions, in bytes.
const maxPositions = 1 << 20

// Examine reads and validates a configuration, and goes on after mistakes. It returns an error only for a file that
// cannot be read as a whole.
func Examine(opts Options) (*Examination, error) {
	var w Warnings
	tree, err := readFile(opts, &w)
	if err != nil {
		return nil, err
	}
	x := &Examination{Config: new(Config), file: opts.File}
	env := envMap(opts.Env)
	x.report, err = schema.Load(x.Config, schema.Source{
		Prefixes: envPrefixes, Env: env, Flags: opts.Flags, File: tree, ReadSecret: material.ReadSecret, Thorough: true,
	})
	x.Problems = problemsOf(err)
	if slices.ContainsFunc(x.Problems, func(p Problem) bool { return p.Key == "" }) {
		return nil, err // no key was read
	}
	if err := x.locate(opts.File); err != nil {
		return nil, err
	}
	unread := x.Problems // which have the defaults now
	for _, p := range problemsOf(x.Config.Validate()) {
		if !slices.ContainsFunc(unread, func(q Problem) bool { return q.Key == p.Key }) {
			x.Problems = append(x.Problems, p)
		}
	}
	x.findUnknown()
	for _, k := range schema.Idle(x.Config) {
		x.Idle = append(x.Idle, Problem{Key: k.Key, Err: errors.New(k.Why)})
	}
	x.findBoth(env)
	return x, nil
}

// problemsOf lists joined problems. A problem may have no key.
func problemsOf(err error) (out []Problem) {
	var p *schema.Problem
	joined, many := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case many:
		for _, e := range joined.Unwrap() {
			out = append(out, problemsOf(e)...)
		}
	case errors.As(err, &p):
		out = append(out, Problem(*p))
	default:
		out = append(out, Problem{Err: err})
	}
	return out
}

func (x *Examination) locate(file string) error {
	if file == "" {
		return nil
	}
	format, err := schema.Format(file)
	if err != nil {
		return err
	}
	data, err := material.ReadFile(file)
	if err != nil || len(data) > maxPositions {
		return err
	}
	if x.positions, err = schema.FindPositions(format, data); err != nil {
		return fmt.Errorf("configuration file %s: %w", file, err)
	}
	for _, list := range x.report.Replaced { // the values of the file there have no effect
		for key := range x.positions {
			if strings.HasPrefix(key, list+".") {
				delete(x.positions, key)
			}
		}
	}
	return nil
}

// Where tells where the value of a key comes from: "config.json:12:3", a variable, or "" for a default. For a key that
// is set nowhere it is the section or list element around it.
func (x *Examination) Where(key string) string {
	if name := x.variable(key); name != "" {
		return name
	}
	line, column := x.Position(key)
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", x.file, line, column)
}

// Position returns line and column in the file, else 0.
func (x *Examination) Position(key string) (line, column int) {
	if x.variable(key) != "" {
		return 0, 0
	}
	pos, _ := x.positions.Find(schema.FilePath(key))
	return pos.Line, pos.Column
}

// variable returns the variable that sets a key, or the section or list around it, unless the file sets something
// nearer.
func (x *Examination) variable(key string) string {
	key = schema.FilePath(key)
	_, found := x.positions.Find(key)
	for ; len(key) >= len(found) && key != ""; key = key[:max(strings.LastIndexByte(key, '.'), 0)] {
		if name := x.report.Vars[key]; name != "" {
			return name
		}
	}
	return ""
}

// FromEnv tells whether variables set keys.
func (x *Examination) FromEnv() bool { return x.report.FromEnv }

func (x *Examination) findUnknown() {
	for i, key := range x.report.Keys {
		name := strings.ReplaceAll(key, ".[", "[")
		u := Unknown{Name: name, Where: x.Where(name)}
		if i < maxSuggestions {
			u.Meaning = inSameElement(name, schema.SuggestKey(x.Config, key))
		}
		x.Unknown = append(x.Unknown, u)
	}
	for i, name := range x.report.Env {
		u := Unknown{Name: name, Env: true, Where: name}
		if i < maxSuggestions {
			u.Meaning = x.report.SuggestEnv(name, envPrefixes)
		}
		x.Unknown = append(x.Unknown, u)
	}
}

// inSameElement moves suggested into the list element of key, if both are in the same section.
func inSameElement(key, suggested string) string {
	i, j := strings.LastIndexByte(key, '.'), strings.LastIndexByte(suggested, '.')
	if i > 0 && j > 0 && schema.AnyElement(key[:i]) == suggested[:j] {
		return key[:i] + suggested[j:]
	}
	return suggested
}

func (x *Examination) findBoth(env map[string]string) {
	for _, name := range x.report.Vars {
		rest, ok := strings.CutPrefix(name, EnvPrefix)
		if other := envPrefixes[1] + rest; ok && env[other] != "" && env[other] != env[name] {
			x.Both = append(x.Both, [2]string{name, other})
		}
	}
	slices.SortFunc(x.Both, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
}
