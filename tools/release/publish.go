package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/gyrohq/gyro/tools/release/image"
	"github.com/gyrohq/gyro/tools/release/notes"
	"github.com/gyrohq/gyro/tools/release/version"
)

const changelog = "CHANGELOG.md"

// changes returns the section of the changelog about a version, or about the next one if there is none.
func changes(tree, v string) (string, error) {
	text, err := os.ReadFile(filepath.Join(tree, changelog))
	if err != nil {
		return "", err
	}
	if section := notes.Section(string(text), v); section != "" {
		return section, nil
	}
	return notes.Section(string(text), "Unreleased"), nil
}

// tags returns the tags of a release. The tag of the library, which starts the workflow of the release, is the last.
func tags(tree, v string) ([]string, error) {
	list, err := version.Tags(tree, v)
	own := "v" + v
	return append(slices.DeleteFunc(list, func(tag string) bool { return tag == own }), own), err
}

// verify fails unless all places have the version, the changelog has a section about it, and all modules have the tag.
func verify(ctx context.Context, tree, v string, stdout io.Writer) error {
	errs := []error{version.Check(tree, v)}
	text, err := os.ReadFile(filepath.Join(tree, changelog))
	if err == nil && notes.Section(string(text), v) == "" {
		err = fmt.Errorf("%s has no section [%s], or an empty one", changelog, v)
	}
	errs = append(errs, err)
	missing, err := tags(tree, v)
	if err == nil {
		var have string
		have, err = git(ctx, tree, "tag", "--points-at", "HEAD")
		missing = slices.DeleteFunc(missing, func(tag string) bool { return slices.Contains(strings.Fields(have), tag) })
	}
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the commit lacks the tags %s", strings.Join(missing, ", "))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s can be released\n", v)
	return nil
}

// publication uploads a release. A file that exists is no error, so that each part can be repeated.
type publication struct {
	tree, dist, version string
	repository          string
	stdout              io.Writer
}

func (p *publication) publish(ctx context.Context, part string) error {
	switch part {
	case "image":
		return p.image(ctx)
	case "files":
		return p.files(ctx)
	case "npm":
		return p.npm(ctx)
	}
	return fmt.Errorf("there is no part %q of a release, only image, files and npm", part)
}

// image uploads the image, with the credentials of docker login.
func (p *publication) image(ctx context.Context) error {
	digest, err := image.Push(ctx, filepath.Join(p.dist, "gyro_"+p.version+"_image.tar"), p.repository+":"+p.version)
	if err == nil {
		fmt.Fprintln(p.stdout, digest)
	}
	return err
}

// The variable GH_TOKEN has the credentials for GitHub.
func (p *publication) files(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(p.dist, "*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no files", p.dist)
	}
	tag := "v" + p.version
	if p.command(ctx, io.Discard, ".", "gh", "release", "view", tag) == nil {
		return p.command(ctx, p.stdout, ".", "gh", append([]string{"release", "upload", tag, "--clobber"}, files...)...)
	}
	args := []string{"release", "create", tag, "--verify-tag", "--title", "Gyro " + p.version, "--notes-file", filepath.Join(p.dist, "NOTES.md")}
	if p.preliminary() {
		args = append(args, "--prerelease")
	}
	return p.command(ctx, p.stdout, ".", "gh", append(args, files...)...)
}

// npm needs NODE_AUTH_TOKEN. With GITHUB_ACTIONS=true npm states the workflow that made the package.
func (p *publication) npm(ctx context.Context) error {
	folder := filepath.Join(p.tree, "clients", "js")
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return err
	}
	var meta struct{ Name, Version string }
	if err := json.Unmarshal(text, &meta); err != nil {
		return err
	}
	if meta.Version != p.version {
		return fmt.Errorf("%s has the version %s, not %s", folder, meta.Version, p.version)
	}
	view := exec.CommandContext(ctx, "npm", "view", meta.Name+"@"+meta.Version, "version")
	if there, err := view.Output(); err == nil && strings.TrimSpace(string(there)) == meta.Version {
		fmt.Fprintf(p.stdout, "%s %s is published\n", meta.Name, meta.Version)
		return nil
	}
	args := []string{"publish", "--access=public", "--tag=latest"}
	if p.preliminary() {
		args[2] = "--tag=next"
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		args = append(args, "--provenance")
	}
	for _, args := range [][]string{{"ci", "--no-audit", "--no-fund"}, {"run", "build"}, args} {
		if err := p.command(ctx, p.stdout, folder, "npm", args...); err != nil {
			return err
		}
	}
	return nil
}

func (p *publication) preliminary() bool { return semver.Prerelease("v"+p.version) != "" }

func (p *publication) command(ctx context.Context, stdout io.Writer, folder, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, stdout, stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", program, args[0], err)
	}
	return nil
}
