// Command compose checks files for docker compose: that they follow the schema of the Compose
// specification, that variables and references resolve, and that the files and folders that they
// build from or mount exist. It needs no Docker.
//
//	compose FILE...
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func main() {
	failed := false
	for _, name := range os.Args[1:] {
		if err := check(name); err != nil {
			fmt.Fprintf(os.Stderr, "compose: %s: %v\n", name, err)
			failed = true
		}
	}
	if failed || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func check(name string) error {
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(name),
		ConfigFiles: []types.ConfigFile{{Filename: name}},
	})
	if err != nil {
		return err
	}
	for _, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				return fmt.Errorf("service %s: %w", s.Name, err)
			}
		}
	}
	return nil
}
