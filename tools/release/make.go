package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gyrohq/gyro/tools/release/brew"
	"github.com/gyrohq/gyro/tools/release/build"
	"github.com/gyrohq/gyro/tools/release/image"
	"github.com/gyrohq/gyro/tools/release/linux"
	"github.com/gyrohq/gyro/tools/release/pack"
	"github.com/gyrohq/gyro/tools/release/sbom"
)

const downloads = "https://github.com/gyrohq/gyro/releases/download/v"

type release struct {
	tree, out string
	// version without the leading v; commit and time of the source.
	version, commit string
	time            time.Time
	targets         []build.Target
	image           string
	progress        io.Writer
	programs        map[build.Target][]byte
	archives        []brew.Archive
}

func (r *release) make(ctx context.Context) error {
	if old, err := os.ReadDir(r.out); err == nil && len(old) > 0 {
		return fmt.Errorf("%s is not empty", r.out)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "gyro-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the system cleans its folder for temporary files, too
	r.programs = map[build.Target][]byte{}
	for _, step := range []func(context.Context, string) error{r.binaries, r.printed, r.packages} {
		if err := step(ctx, work); err != nil {
			return err
		}
	}
	if err := r.oci("gyro_"+r.version+"_image.tar", r.version); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.chart, r.formula, r.notes, r.checksums} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) write(name string, content func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	if err := errors.Join(content(f), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintln(r.progress, name)
	return nil
}

func (r *release) base(t build.Target) string {
	return fmt.Sprintf("gyro_%s_%s_%s", r.version, t.OS, t.Arch)
}

// binaries makes the archives, and the documents about the contents of the binaries.
func (r *release) binaries(ctx context.Context, work string) error {
	for _, t := range r.targets {
		program, err := r.binary(ctx, work, t)
		if err != nil {
			return err
		}
		if err := r.archive(t, program); err != nil {
			return err
		}
		err = r.write(r.base(t)+".cdx.json", func(w io.Writer) error {
			return sbom.Write(w, sbom.Subject{File: t.Program(), Program: program, Version: r.version, Commit: r.commit, Time: r.time})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *release) binary(ctx context.Context, work string, t build.Target) ([]byte, error) {
	file := filepath.Join(work, t.OS+"_"+t.Arch, t.Program())
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	if err := (build.Builder{Tree: r.tree, Version: r.version, Commit: r.commit}).Build(ctx, t, file); err != nil {
		return nil, err
	}
	program, err := os.ReadFile(file)
	r.programs[t] = program
	return program, err
}

// archive is for users who install by hand, and for Homebrew.
func (r *release) archive(t build.Target, program []byte) error {
	files := []pack.File{{Name: t.Program(), Mode: 0o755, Data: program}}
	texts := []string{"LICENSE", "README.md"}
	if t.OS == "linux" {
		texts = append(texts, "deploy/systemd/gyro.service", "deploy/systemd/sysctl.conf")
	}
	for _, name := range texts {
		data, err := os.ReadFile(filepath.Join(r.tree, name))
		if err != nil {
			return err
		}
		files = append(files, pack.File{Name: path.Base(name), Mode: 0o644, Data: data})
	}
	name, format := r.base(t)+".tar.gz", pack.TarGz
	if t.OS == "windows" {
		name, format = r.base(t)+".zip", pack.Zip
	}
	if err := r.write(name, func(w io.Writer) error { return format(w, files, r.time) }); err != nil {
		return err
	}
	sum, err := r.sum(name)
	r.archives = append(r.archives, brew.Archive{OS: t.OS, Arch: t.Arch, URL: downloads + r.version + "/" + name, SHA256: sum})
	return err
}

// printed runs the binary for this machine to get the completion scripts and the manual page for packages.
func (r *release) printed(ctx context.Context, work string) error {
	t := build.Target{OS: runtime.GOOS, Arch: runtime.GOARCH}
	program := filepath.Join(work, t.OS+"_"+t.Arch, t.Program())
	if _, ok := r.programs[t]; !ok {
		if _, err := r.binary(ctx, work, t); err != nil {
			return err
		}
	}
	for name, args := range map[string][]string{
		"completion.bash": {"completion", "bash"}, "completion.zsh": {"completion", "zsh"}, "completion.fish": {"completion", "fish"}, "gyro.1.gz": {"man"},
	} {
		text, err := exec.CommandContext(ctx, program, args...).Output()
		if err != nil {
			return fmt.Errorf("gyro %s: %w", strings.Join(args, " "), err)
		}
		if strings.HasSuffix(name, ".gz") {
			text = zipped(text)
		}
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// zipped compresses a text. The same text gives the same bytes.
func zipped(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // which is a level
	_, _ = w.Write(text)                                  // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}

func (r *release) packages(ctx context.Context, work string) error {
	for _, t := range r.targets {
		if t.OS != "linux" {
			continue
		}
		if err := os.WriteFile(filepath.Join(work, "gyro"), r.programs[t], 0o755); err != nil {
			return err
		}
		p := linux.Package{Tree: r.tree, Version: r.version, Time: r.time, Arch: t.Arch, Files: work}
		for _, format := range linux.Formats() {
			name := r.base(t) + "." + format
			if err := p.Write(ctx, format, filepath.Join(r.out, name)); err != nil {
				return err
			}
			fmt.Fprintln(r.progress, name)
		}
	}
	return nil
}

func (r *release) oci(name, tag string) error {
	var programs []image.Program
	for _, t := range r.targets {
		if t.OS == "linux" {
			programs = append(programs, image.Program{Arch: t.Arch, Data: r.programs[t]})
		}
	}
	if len(programs) == 0 {
		return nil
	}
	return r.write(name, func(w io.Writer) error {
		return image.Write(w, image.Release{
			Name: r.image, Tag: tag, Version: r.version, Commit: r.commit, Time: r.time, Programs: programs,
		})
	})
}

// chart makes the same as helm package: the chart with the version of the release.
func (r *release) chart(context.Context) error {
	root := filepath.Join(r.tree, "deploy", "helm", "gyro")
	var files []pack.File
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".helmignore" {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err == nil && name == "Chart.yaml" {
			data, err = versioned(data, r.version)
		}
		files = append(files, pack.File{Name: path.Join("gyro", filepath.ToSlash(name)), Mode: 0o644, Data: data})
		return err
	})
	if err != nil {
		return err
	}
	return r.write("gyro-chart_"+r.version+".tgz", func(w io.Writer) error { return pack.TarGz(w, files, r.time) })
}

func versioned(chart []byte, version string) ([]byte, error) {
	var meta map[string]any
	if err := yaml.Unmarshal(chart, &meta); err != nil {
		return nil, err
	}
	meta["version"], meta["appVersion"] = version, version
	return yaml.Marshal(meta)
}

func (r *release) formula(context.Context) error {
	systems := map[build.Target]bool{}
	for _, t := range r.targets {
		systems[t] = true
	}
	for _, t := range build.Targets() {
		if t.OS != "windows" && !systems[t] {
			return nil
		}
	}
	return r.write("gyro.rb", func(w io.Writer) error { return brew.Write(w, r.version, r.archives) })
}

func (r *release) notes(ctx context.Context) error {
	return r.write("NOTES.md", func(w io.Writer) error {
		return writeNotes(ctx, w, r.tree, lastTag(ctx, r.tree, r.commit), r.commit, r.version)
	})
}

// checksums makes SHA256SUMS, which sha256sum -c reads.
func (r *release) checksums(context.Context) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, entry := range entries {
		sum, err := r.sum(entry.Name())
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+entry.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return r.write("SHA256SUMS", func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewBufferString(strings.Join(lines, "")))
		return err
	})
}

func (r *release) sum(name string) (string, error) {
	f, err := os.Open(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
