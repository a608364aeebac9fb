package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/app"
	"github.com/gyrohq/gyro/server/config"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version and exit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Gyro v%s (Go version: %s)\n", version, strings.TrimPrefix(runtime.Version(), "go"))
			return err
		},
	}
}

// configFlag is the flag that all commands with a configuration file share.
func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "config.json", "path to config file; empty for none")
}

// loadValid loads the configuration of a command and validates it. The file must exist, unless
// the flag was not given and environment variables set keys: then the configuration is theirs
// alone.
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
		data, err := config.Generate(format)
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

// createEnv writes a file of variables with random secrets.
func createEnv(file string) error {
	data, err := config.Generate("env")
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
	migrating := cmd.Flags().Bool("from-centrifugo", false, "report everything about a configuration of Centrifugo at once: what is not supported, refused, unknown, ignored, and what works differently")
	asJSON := cmd.Flags().Bool("json", false, "print the report of --from-centrifugo as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *migrating {
			return reportMigration(cmd, *file, *strict, *asJSON)
		}
		if *asJSON {
			return errors.New("--json needs --from-centrifugo")
		}
		cfg, warnings, err := loadValid(cmd, *file)
		if err == nil {
			err = app.Check(cfg)
		}
		if err != nil {
			return err
		}
		for _, line := range warnings.Idle {
			fmt.Fprintln(cmd.OutOrStdout(), "Warning:", line)
		}
		if *strict && len(warnings.UnknownKeys) > 0 {
			return fmt.Errorf("unknown keys: %s", strings.Join(warnings.UnknownKeys, ", "))
		}
		return nil
	}
	return cmd
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

func loadBase(base string) (*config.Config, error) {
	cfg, _, err := config.Load(config.Options{File: base, RequireFile: base != "", Env: os.Environ()})
	if err != nil {
		return nil, err
	}
	return cfg, cfg.Validate()
}

func defaultEnvCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "defaultenv", Short: "Print all environment variables with their defaults", Args: cobra.NoArgs}
	base := cmd.Flags().StringP("base", "b", "", "take values from this file")
	nonZero := cmd.Flags().Bool("base-non-zero-only", false, "print only keys with a value in the base file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadBase(*base)
		if err != nil {
			return err
		}
		for _, line := range cfg.Env(*nonZero) {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
