// Package config is the configuration of the server: one typed schema, from which keys, defaults, environment variables,
// checks and documentation follow.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/joho/godotenv"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
	"github.com/gyrohq/gyro/server/internal/config/material"
)

// EnvPrefix is the prefix of Gyro's environment variables. Centrifugo's prefix is accepted too, so that a deployment can
// change by replacing the binary. If both are set, Gyro's counts.
const EnvPrefix = "GYRO_"

var envPrefixes = []string{EnvPrefix, "CENTRIFUGO_"}

// maxSuggestions bounds the unknown keys, and the unknown variables, for which Load looks for a similar name.
const maxSuggestions = 100

// Options are the sources of Load. A flag has precedence over a non-empty variable, a variable over the file, the file
// over the default.
type Options struct {
	// File is a .json, .yaml, .yml or .toml file; empty for none.
	File string
	// RequireFile makes an unreadable file an error instead of a warning.
	RequireFile bool
	// Env is as os.Environ returns it.
	Env []string
	// Flags has the texts of given flags by dotted key.
	Flags map[string]string
}

// Warnings about a usable configuration.
type Warnings struct {
	File        string            // why the file was not read
	UnknownKeys []string          // of the file, as paths: channel.namespaces.[0].foo
	UnknownEnv  []string          // variables with the prefix of Gyro or Centrifugo
	suggestions map[string]string // the probable meaning of an unknown key or variable
	Idle        []string          // keys that are set and have no effect, with the reason
	Insecure    []string          // active options that no production server should have

	// FromEnv: variables set keys. Source is the full path of the file.
	FromEnv bool
	Source  string
}

// Lines returns one text per warning, for the log.
func (w Warnings) Lines() []string {
	var out []string
	if w.File != "" {
		out = append(out, w.File)
	}
	for _, k := range w.UnknownKeys {
		out = append(out, "unknown key in configuration file: "+k+w.meaning(k))
	}
	for _, e := range w.UnknownEnv {
		out = append(out, "unknown environment variable: "+e+w.meaning(e))
	}
	return append(append(out, w.Idle...), w.Insecure...)
}

func (w Warnings) meaning(unknown string) string {
	if suggested := w.suggestions[unknown]; suggested != "" {
		return " (did you mean " + suggested + "?)"
	}
	return ""
}

// Load reads the configuration from file, variables and flags (docs/configuration.md). The result is complete, but not
// validated. An error names every bad value by key and source, and shows no secret.
func Load(opts Options) (*Config, Warnings, error) {
	c, _, w, err := read(opts)
	return c, w, err
}

func read(opts Options) (c *Config, report schema.Report, w Warnings, err error) {
	tree, err := readFile(opts, &w)
	if err != nil {
		return nil, report, w, err
	}
	c = new(Config)
	report, err = schema.Load(c, schema.Source{
		Prefixes: envPrefixes, Env: envMap(opts.Env), Flags: opts.Flags, File: tree, ReadSecret: material.ReadSecret,
	})
	if err != nil {
		return nil, report, w, err
	}
	if opts.File != "" && w.File == "" {
		w.Source = opts.File
		if full, err := filepath.Abs(opts.File); err == nil {
			w.Source = full
		}
	}
	w.UnknownKeys, w.UnknownEnv, w.FromEnv = report.Keys, report.Env, report.FromEnv
	w.suggestions = make(map[string]string)
	for _, k := range report.Keys[:min(len(report.Keys), maxSuggestions)] {
		w.suggestions[k] = schema.SuggestKey(c, k)
	}
	for _, e := range report.Env[:min(len(report.Env), maxSuggestions)] {
		w.suggestions[e] = report.SuggestEnv(e, envPrefixes)
	}
	for _, k := range schema.Idle(c) {
		w.Idle = append(w.Idle, k.String())
	}
	w.Insecure = c.insecure()
	return c, report, w, nil
}

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() *Config {
	c := new(Config)
	if _, err := schema.Load(c, schema.Source{}); err != nil {
		panic(err) // a default of the schema does not parse
	}
	return c
}

func readFile(opts Options, w *Warnings) (any, error) {
	if opts.File == "" {
		return nil, nil
	}
	format, err := schema.Format(opts.File)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", opts.File, err)
	}
	data, err := material.ReadFile(opts.File)
	if err != nil {
		if opts.RequireFile {
			return nil, fmt.Errorf("configuration file: %w", err)
		}
		w.File = "configuration file is not read: " + err.Error()
		return nil, nil
	}
	tree, err := schema.ParseFile(format, data)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", opts.File, err)
	}
	return tree, nil
}

func envMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, line := range env {
		if name, value, ok := strings.Cut(line, "="); ok {
			m[name] = value
		}
	}
	return m
}

// LoadDotEnv sets the variables of a .env file that are not set in the environment. The file may be missing; an error
// names the line, not its content.
func LoadDotEnv(file string) error {
	data, err := material.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	vars, err := godotenv.UnmarshalBytes(data)
	if err != nil {
		return fmt.Errorf("%s: line %d is not of the form NAME=value", file, badLine(string(data)))
	}
	for name, value := range vars {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("%s: variable %q: %w", file, name, err)
		}
	}
	return nil
}

// badLine finds the line after the longest part that parses: the parser's error has no line number, and quotes the text.
func badLine(text string) int {
	lines := strings.SplitAfter(text, "\n")
	lo, hi := 0, len(lines) // lines[:lo] parses, lines[:hi] does not
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if _, err := godotenv.Unmarshal(strings.Join(lines[:mid], "")); err == nil {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

func (c *Config) insecure() []string {
	var out []string
	add := func(on bool, text string) {
		if on {
			out = append(out, text)
		}
	}
	add(c.Client.Insecure, "client.insecure is on: clients need no token and may do what no rule allows")
	add(c.Client.SkipTokenSignature, "client.insecure_skip_token_signature_verify is on: token signatures are not verified")
	const bent = "insecure_skip_jwks_endpoint_safety_check is on: claims of tokens that are not verified yet decide which URLs are fetched"
	add(c.Client.Token.SkipJWKSSafetyCheck, "client.token."+bent)
	add(c.Client.SubscriptionToken.Enabled && c.Client.SubscriptionToken.SkipJWKSSafetyCheck, "client.subscription_token."+bent)
	add(c.HTTPAPI.Insecure, "http_api.insecure is on: the server API needs no key")
	add(c.Admin.Insecure, "admin.insecure is on: the admin interface needs no login")
	add(c.Admin.Enabled && c.Admin.Secret != "" && len(c.Admin.Secret) < 32, "admin.secret has less than 32 bytes: a person who sees a token could guess it and make other tokens")
	add(c.Admin.Enabled && c.Admin.Password != "" && len(c.Admin.Password) < 12, "admin.password has less than 12 bytes: it can be guessed")
	add(c.Debug.Enabled, "debug.enabled is on: profiling endpoints are served")
	add(len(c.Client.AllowedOrigins) == 1 && c.Client.AllowedOrigins[0] == "*",
		"client.allowed_origins is *: pages of any origin may connect")
	return out
}
