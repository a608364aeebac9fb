package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/app"
	"github.com/gyrohq/gyro/server/internal/config"
)

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print version and exit", Args: cobra.NoArgs}
	print := printer(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return print(cmd, versionText(), map[string]any{"version": version, "go": goVersion(), "commit": commit})
	}
	return cmd
}

func goVersion() string { return strings.TrimPrefix(runtime.Version(), "go") }

func versionText() string {
	build := "Go version: " + goVersion()
	if commit != "" {
		build += ", commit " + commit
	}
	return fmt.Sprintf("Gyro v%s (%s)\n", version, build)
}

// printer adds the flag --json, and returns the function that prints a result: the text, or with the flag the object.
func printer(cmd *cobra.Command) func(cmd *cobra.Command, text string, object any) error {
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	return func(cmd *cobra.Command, text string, object any) error {
		if *asJSON {
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetEscapeHTML(false)
			return enc.Encode(object)
		}
		_, err := io.WriteString(cmd.OutOrStdout(), text)
		return err
	}
}

func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "config.json", "path to config file; empty for none")
}

// loadValid loads and validates a configuration. The file must exist, unless the flag was not given and environment
// variables set keys.
func loadValid(cmd *cobra.Command, file string) (*config.Config, config.Warnings, error) {
	o := config.Options{File: file, RequireFile: true, Env: os.Environ()}
	cfg, warnings, err := config.Load(o)
	if _, absent := os.Stat(file); errors.Is(absent, fs.ErrNotExist) && !cmd.Flags().Changed("config") {
		o.File = ""
		if c, w, failure := config.Load(o); failure != nil || w.FromEnv {
			cfg, warnings, err = c, w, failure
		}
	}
	if err != nil {
		return nil, warnings, err
	}
	return cfg, warnings, cfg.Validate()
}

// create writes a file that must not exist yet, readable by its owner alone.
func create(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func genConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "genconfig", Short: "Generate a minimal configuration file with random secrets", Args: cobra.NoArgs}
	cmd.Long = "Writes a minimal configuration file with random secrets, which must not exist yet. A file whose name ends in .env gets the " +
		"secrets alone, as variables of the environment: for a configuration that anybody may read."
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if filepath.Ext(*file) == ".env" {
			return createEnv(*file)
		}
		format, err := config.Format(*file)
		if err != nil {
			return err
		}
		data, err := config.Starter(format, config.EnvPrefix)
		if err != nil {
			return err
		}
		if err := create(*file, data); err != nil {
			return err
		}
		if _, _, err := loadValid(cmd, *file); err != nil {
			return errors.Join(err, os.Remove(*file))
		}
		return nil
	}
	return cmd
}

func createEnv(file string) error {
	data, err := config.Starter("env", config.EnvPrefix)
	if err != nil {
		return err
	}
	cfg, _, err := config.Load(config.Options{Env: strings.Fields(string(data))})
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return err
	}
	return create(file, data)
}

func checkConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "checkconfig", Short: "Check a configuration file", Args: cobra.NoArgs}
	cmd.Long = "Checks a configuration file and the variables of the environment.\n\n" +
		"The exit code is 0 if gyro starts with them, and 1 if not, if they cannot be read or, with --strict, if keys are unknown."
	file := configFlag(cmd)
	strict := cmd.Flags().BoolP("strict", "s", false, "fail on unknown keys")
	print := printer(cmd)
	migrating := cmd.Flags().Bool("from-centrifugo", false, "report everything about a configuration of Centrifugo at once: what is not supported, refused, unknown, ignored, and what works differently")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *migrating {
			return reportMigration(cmd, *file, *strict, print)
		}
		cfg, warnings, err := loadValid(cmd, *file)
		if err == nil {
			err = app.Check(cfg)
		}
		if err == nil && *strict && len(warnings.UnknownKeys) > 0 {
			err = fmt.Errorf("unknown keys: %s", strings.Join(warnings.UnknownKeys, ", "))
		}
		c := checked{Valid: err == nil, Warnings: append([]string{}, warnings.Idle...), UnknownKeys: append([]string{}, warnings.UnknownKeys...), Errors: []string{}}
		var text strings.Builder
		if err != nil {
			c.Errors = strings.Split(err.Error(), "\n")
		} else {
			for _, line := range warnings.Lines() {
				fmt.Fprintln(&text, "Warning:", line)
			}
		}
		return errors.Join(print(cmd, text.String(), c), err)
	}
	return cmd
}

type checked struct {
	Valid       bool     `json:"valid"`
	Errors      []string `json:"errors"`
	Warnings    []string `json:"warnings"`
	UnknownKeys []string `json:"unknown_keys"`
}

func defaultConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "defaultconfig", Short: "Write a complete configuration file with all defaults", Args: cobra.NoArgs}
	file := configFlag(cmd)
	base := cmd.Flags().StringP("base", "b", "", "take values from this file")
	dry := cmd.Flags().BoolP("dry-run", "d", false, "print instead of writing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		format, err := config.Format(*file)
		if err != nil {
			return err
		}
		cfg, err := loadBase(*base)
		if err != nil {
			return err
		}
		var buf bytes.Buffer
		if err := cfg.Write(&buf, format); err != nil {
			return err
		}
		if *dry {
			_, err = io.Copy(cmd.OutOrStdout(), &buf)
			return err
		}
		return create(*file, buf.Bytes())
	}
	return cmd
}

func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "configschema",
		Short: "Print the JSON schema of configuration files, for editors",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return config.WriteJSONSchema(cmd.OutOrStdout()) },
	}
}

func baseOptions(base string) config.Options {
	return config.Options{File: base, RequireFile: base != "", Env: os.Environ()}
}

func loadBase(base string) (*config.Config, error) {
	cfg, _, err := config.Load(baseOptions(base))
	if err != nil {
		return nil, err
	}
	return cfg, cfg.Validate()
}

// envLines returns the variables of all keys, or of the keys that the base file sets.
func envLines(base string, ofBase bool) ([]string, error) {
	if ofBase {
		return config.EnvOfFile(baseOptions(base))
	}
	cfg, err := loadBase(base)
	if err != nil {
		return nil, err
	}
	return cfg.Env(), nil
}

func defaultEnvCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "defaultenv", Short: "Print all environment variables with their defaults", Args: cobra.NoArgs}
	base := cmd.Flags().StringP("base", "b", "", "take values from this file")
	print := printer(cmd)
	nonZero := cmd.Flags().Bool("base-non-zero-only", false, "print only keys that the base file sets to a value that is not empty")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		lines, err := envLines(*base, *nonZero)
		if err != nil {
			return err
		}
		var text strings.Builder
		variables := make(map[string]string)
		for _, line := range lines {
			name, value, _ := strings.Cut(line, "=")
			if plain, err := strconv.Unquote(value); err == nil {
				value = plain
			}
			variables[name] = value
			fmt.Fprintln(&text, line)
		}
		return print(cmd, text.String(), variables)
	}
	return cmd
}
