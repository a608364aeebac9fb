// Command release makes all files of a release, with tools that are Go modules: neither Docker nor the packagers of
// distributions are needed. The same commit gives the same files.
//
//	release [-version VERSION] [-targets OS/ARCH,…] [-image NAME] [-out FOLDER]
//	release image [-arch ARCH,…] FILE
//	release notes [-from REVISION] [-to REVISION]
//	release push FILE REGISTRY/NAME:TAG
//	release version|tags|verify TAG
//	release publish image|files|npm TAG
//
// The first makes static binaries in archives, deb and rpm packages, the OCI image, the Helm chart, a CycloneDX
// document for each binary, the Homebrew formula, the notes, and SHA256SUMS. The second makes an image alone, gyro:local, of
// the tree as it is. The third prints the notes of a release, the fourth uploads an image.
//
// The others take the tag of a release, as in v0.2.0, and work on the tree of this folder: version writes its version to all
// places that have one, tags prints the tags that it takes, verify fails unless the commit can be released under them, and
// publish brings the files in dist to GitHub and its registry of images, and the client for JavaScript to npm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gyrohq/gyro/tools/release/build"
	"github.com/gyrohq/gyro/tools/release/image"
	"github.com/gyrohq/gyro/tools/release/notes"
	"github.com/gyrohq/gyro/tools/release/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "image":
			return makeImage(ctx, args[1:], stdout)
		case "notes":
			return printNotes(ctx, args[1:], stdout)
		case "push":
			if len(args) != 3 {
				return errors.New("usage: release push FILE REGISTRY/NAME:TAG")
			}
			digest, err := image.Push(ctx, args[1], args[2])
			if err == nil {
				fmt.Fprintln(stdout, digest)
			}
			return err
		case "version", "tags", "verify", "publish":
			return withTag(ctx, args, stdout)
		}
	}
	return makeRelease(ctx, args, stdout)
}

func withTag(ctx context.Context, args []string, stdout io.Writer) error {
	want := 2
	if args[0] == "publish" {
		want = 3
	}
	if len(args) != want {
		return errors.New("usage: release version|tags|verify TAG, or release publish image|files|npm TAG")
	}
	v, err := version.Parse(args[want-1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "version":
		return version.Set(".", v)
	case "tags":
		list, err := tags(".", v)
		fmt.Fprintln(stdout, strings.Join(list, "\n"))
		return err
	case "verify":
		return verify(ctx, ".", v, stdout)
	}
	p := publication{tree: ".", dist: "dist", version: v, repository: "ghcr.io/gyrohq/gyro", stdout: stdout}
	return p.publish(ctx, args[1])
}

func makeRelease(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	r := release{tree: ".", progress: stdout}
	flags.StringVar(&r.tree, "tree", ".", "root of the repository")
	flags.StringVar(&r.version, "version", "", "version without the leading v; default: of the tag of the commit, or a development version")
	targets := flags.String("targets", "", "systems and architectures, as in linux/amd64,darwin/arm64; default: all")
	flags.StringVar(&r.image, "image", "gyro", "name of the image")
	flags.StringVar(&r.out, "out", "dist", "folder for the files, which has none yet")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	r.targets = build.Targets()
	if *targets != "" {
		r.targets = nil
		for text := range strings.SplitSeq(*targets, ",") {
			t, err := build.ParseTarget(text)
			if err != nil {
				return err
			}
			r.targets = append(r.targets, t)
		}
	}
	if err := r.source(ctx); err != nil {
		return err
	}
	return r.make(ctx)
}

// makeImage makes an image of the working tree, for trials of files such as the compose file.
func makeImage(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	tree := flags.String("tree", ".", "root of the repository")
	arch := flags.String("arch", runtime.GOARCH, "architectures, as in amd64,arm64")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: release image [-arch ARCH,…] FILE")
	}
	r := release{tree: *tree, out: filepath.Dir(flags.Arg(0)), image: "gyro", progress: stdout, programs: map[build.Target][]byte{}}
	for a := range strings.SplitSeq(*arch, ",") {
		t, err := build.ParseTarget("linux/" + a)
		if err != nil {
			return err
		}
		r.targets = append(r.targets, t)
	}
	if err := r.source(ctx); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "gyro-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the system cleans its folder for temporary files, too
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, t := range r.targets {
		if _, err := r.binary(ctx, work, t); err != nil {
			return err
		}
	}
	return r.oci(filepath.Base(flags.Arg(0)), "local")
}

func printNotes(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("notes", flag.ContinueOnError)
	tree := flags.String("tree", ".", "root of the repository")
	from := flags.String("from", "", "revision after which the notes begin; default: the last tag of a release")
	to := flags.String("to", "HEAD", "revision with which they end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *from == "" {
		*from = lastTag(ctx, *tree, *to)
	}
	return writeNotes(ctx, stdout, *tree, *from, *to, strings.TrimPrefix(*to, "v"))
}

func writeNotes(ctx context.Context, w io.Writer, tree, from, to, v string) error {
	commits, err := notes.Read(ctx, tree, from, to)
	if err != nil {
		return err
	}
	section, err := changes(tree, v)
	if err != nil {
		return err
	}
	return notes.Write(w, v, section, commits)
}

// lastTag is the last tag of a release before a revision, or nothing if there is none.
func lastTag(ctx context.Context, tree, revision string) string {
	tag, err := git(ctx, tree, "describe", "--tags", "--abbrev=0", "--match=v*", revision+"^")
	if err != nil {
		return "" // the first release
	}
	return tag
}

func git(ctx context.Context, tree string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", tree}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// source finds the commit, its time and, unless it is given, the version.
func (r *release) source(ctx context.Context) error {
	text, err := git(ctx, r.tree, "log", "-1", "--format=%H %cI")
	if err != nil {
		return err
	}
	commit, when, _ := strings.Cut(text, " ")
	if r.time, err = time.Parse(time.RFC3339, when); err != nil {
		return err
	}
	r.commit = commit
	if r.version == "" {
		if tag, err := git(ctx, r.tree, "describe", "--tags", "--exact-match", "--match=v*"); err == nil {
			r.version = tag
		} else if next, err := (build.Builder{Tree: r.tree}).Next(); err == nil {
			r.version = next + "-dev." + r.time.UTC().Format("20060102150405") + ".g" + commit[:12]
		} else {
			return err
		}
	}
	r.version = strings.TrimPrefix(r.version, "v")
	return nil
}
