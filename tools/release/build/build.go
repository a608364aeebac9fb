// Package build makes the binaries of a release: static, and independent of the machine and the folder of the build.
// They have the dependencies that server/go.mod names, as binaries of go install have.
package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/gyrohq/gyro/tools/release/version"
)

// Target is a system and an architecture, in the names of Go.
type Target struct{ OS, Arch string }

// Targets are the platforms of a release.
func Targets() []Target {
	return []Target{
		{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
	}
}

// ParseTarget reads OS/ARCH.
func ParseTarget(text string) (Target, error) {
	for _, t := range Targets() {
		if t.String() == text {
			return t, nil
		}
	}
	return Target{}, fmt.Errorf("there is no target %q, only %v", text, Targets())
}

func (t Target) String() string { return t.OS + "/" + t.Arch }

// Program is the name of the binary.
func (t Target) Program() string {
	if t.OS == "windows" {
		return "gyro.exe"
	}
	return "gyro"
}

// Builder builds from one tree.
type Builder struct {
	Tree string
	// Version without the leading v, which gyro version prints.
	Version string
	// Commit of the source, which gyro version prints; empty if it is not known.
	Commit string
}

// Build writes the binary for a target to a file, in a folder that exists.
func (b Builder) Build(ctx context.Context, t Target, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "gyro-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the system cleans its folder for temporary files, too
	workspace := filepath.Join(folder, "go.work")
	if err := b.workspace(workspace); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+b.Version+" -X main.commit="+b.Commit, "-o", file, "./cmd/gyro")
	cmd.Dir = filepath.Join(b.Tree, "server")
	cmd.Env = append(os.Environ(), "GOOS="+t.OS, "GOARCH="+t.Arch, "GOWORK="+workspace,
		// A user's settings could change these.
		"CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build for %s: %w\n%s", t, err, output.Bytes())
	}
	return nil
}

// workspace leaves out the modules of tests, because their dependencies would raise the versions of the server's.
func (b Builder) workspace(file string) error {
	tree, err := filepath.Abs(b.Tree)
	if err != nil {
		return err
	}
	name := filepath.Join(tree, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return err
	}
	at := func(path string) string { return filepath.Join(tree, filepath.FromSlash(path)) }
	var uses []*modfile.Use
	for _, use := range work.Use {
		if version.Published(use.Path) {
			uses = append(uses, &modfile.Use{Path: at(use.Path)})
		}
	}
	work.SetUse(uses)
	for _, r := range append([]*modfile.Replace(nil), work.Replace...) {
		if strings.HasPrefix(r.New.Path, ".") {
			if err := work.AddReplace(r.Old.Path, r.Old.Version, at(r.New.Path), ""); err != nil {
				return err
			}
		}
	}
	work.Cleanup()
	sums, err := os.ReadFile(name + ".sum")
	if err == nil {
		err = os.WriteFile(file+".sum", sums, 0o644)
	}
	if err == nil {
		err = os.WriteFile(file, modfile.Format(work.Syntax), 0o644)
	}
	return err
}

// Next is the version of the next release of the tree: the modules require each other in this version.
func (b Builder) Next() (string, error) {
	name := filepath.Join(b.Tree, "server", "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	mod, err := modfile.Parse(name, text, nil)
	if err != nil {
		return "", err
	}
	for _, r := range mod.Require {
		if r.Mod.Path == "github.com/gyrohq/gyro" {
			return strings.TrimPrefix(r.Mod.Version, "v"), nil
		}
	}
	return "", fmt.Errorf("%s does not require the library", name)
}
