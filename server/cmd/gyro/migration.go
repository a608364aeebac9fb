package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/app"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/config/migrate"
)

// reportMigration prints what a configuration of Centrifugo means to Gyro. The error says
// that Gyro does not start with it or, if strict, that keys or variables are unknown; the
// report has told of it.
func reportMigration(cmd *cobra.Command, file string, strict, asJSON bool) error {
	x, err := examine(cmd, file)
	if err != nil {
		return err
	}
	report := migrate.New(x, app.Check(x.Config))
	if asJSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		err = out.Encode(report)
	} else {
		err = report.WriteText(cmd.OutOrStdout())
	}
	unknown := slices.ContainsFunc(report.Findings, func(f migrate.Finding) bool { return f.Kind == migrate.Unknown })
	if err == nil && (!report.Starts || strict && unknown) {
		cmd.SilenceErrors = true
		err = errors.New("the configuration needs changes")
	}
	return err
}

// examine reads the configuration that loadValid would.
func examine(cmd *cobra.Command, file string) (*config.Examination, error) {
	o := config.Options{File: file, RequireFile: true, Env: os.Environ()}
	if _, absent := os.Stat(file); errors.Is(absent, fs.ErrNotExist) && !cmd.Flags().Changed("config") {
		alone := o
		alone.File = ""
		if x, err := config.Examine(alone); err != nil || x.FromEnv() {
			return x, err
		}
	}
	return config.Examine(o)
}
