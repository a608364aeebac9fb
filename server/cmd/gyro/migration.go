package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/app"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/migrate"
)

// reportMigration prints the meaning of a configuration of Centrifugo for Gyro. The error says that Gyro does not start
// with it or, if strict, that keys or variables are unknown.
func reportMigration(cmd *cobra.Command, file string, strict bool, print func(*cobra.Command, string, any) error) error {
	x, err := examine(cmd, file)
	if err != nil {
		return err
	}
	report := migrate.New(x, app.Check(x.Config))
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		return err
	}
	err = print(cmd, text.String(), report)
	unknown := slices.ContainsFunc(report.Findings, func(f migrate.Finding) bool { return f.Kind == migrate.Unknown })
	if err == nil && (!report.Starts || strict && unknown) {
		cmd.SilenceErrors = true
		err = errors.New("the configuration needs changes")
	}
	return err
}

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
