package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/app"
	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/engine"
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

// loadValid loads the configuration of a command and validates it. The file has to exist,
// unless nobody asked for one and there are variables of the configuration: they are it.
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
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
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

func checkConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "checkconfig", Short: "Check a configuration file", Args: cobra.NoArgs}
	file := configFlag(cmd)
	strict := cmd.Flags().BoolP("strict", "s", false, "fail on unknown keys")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, warnings, err := loadValid(cmd, *file)
		if err == nil {
			err = checkEngines(cfg)
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

// checkEngines finds out whether engines can be made, without connecting to them.
func checkEngines(cfg *config.Config) error {
	_, err := engine.New(cfg, nil, slog.New(slog.DiscardHandler))
	return err
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

// tokenSection is the section that a kind of token is signed and verified by.
func tokenSection(cfg *config.Config, sub bool) config.Token {
	if sub && cfg.Client.SubscriptionToken.Enabled {
		return cfg.Client.SubscriptionToken.Token
	}
	return cfg.Client.Token
}

// tokenCommand makes tokens (config.md 2.8).
func tokenCommand(name string, sub bool) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: "Generate a sample connection token", Args: cobra.NoArgs}
	file := configFlag(cmd)
	user := cmd.Flags().StringP("user", "u", "", "user ID")
	ttl := cmd.Flags().Int64P("ttl", "t", 7*24*3600, "seconds until the token expires; 0 or less for no expiration")
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print just the token")
	channel := new(string)
	if sub {
		cmd.Short = "Generate a sample subscription token"
		channel = cmd.Flags().StringP("channel", "s", "", "channel")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if sub && *channel == "" {
			return errors.New("channel is required")
		}
		cfg, _, err := loadValid(cmd, *file)
		if err != nil {
			return err
		}
		lifetime := time.Duration(*ttl) * time.Second
		token, err := auth.Sign(tokenSection(cfg, sub), auth.Claims{User: *user, Channel: *channel, TTL: lifetime}, time.Now())
		if err != nil {
			return err
		}
		if *quiet {
			_, err = fmt.Fprint(cmd.OutOrStdout(), token)
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "HMAC SHA-256 JWT for %s%s:\n%s\n", subject(*user, *channel), expiry(lifetime), token)
		return err
	}
	return cmd
}

func subject(user, channel string) string {
	text := fmt.Sprintf("user %q", user)
	if user == "" {
		text = "anonymous user"
	}
	if channel != "" {
		text += fmt.Sprintf(" and channel %q", channel)
	}
	return text
}

func expiry(ttl time.Duration) string {
	if ttl <= 0 {
		return " without expiration"
	}
	return " with expiration TTL " + ttl.String()
}

// checkTokenCommand verifies tokens (config.md 2.8).
func checkTokenCommand(name string, sub bool) *cobra.Command {
	cmd := &cobra.Command{Use: name + " TOKEN", Short: "Verify a token against the configuration", Args: cobra.ExactArgs(1)}
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, _, err := loadValid(cmd, *file)
		if err != nil {
			return err
		}
		text, err := app.CheckToken(cfg, args[0], sub)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	}
	return cmd
}
