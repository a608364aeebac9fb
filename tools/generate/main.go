// Command generate makes the generated files of the repository, which are committed:
//
//	generate [-check] [-all] [NAME...]
//
// With -check it makes them in a temporary folder, compares, and fails with the names of the files that differ; it writes
// nothing, needs no git and does not look at other files. Without names it makes all. It runs in the root of the repository.
//
// Some files take other tools than Go to make. A stamp beside them has the hash of their sources, and they are made again only
// if it differs, so that work on Go needs Go alone; -all makes and compares them in any case.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

type product struct {
	name string
	dir  string
	// An argument of command that begins with "OUT/" is a file or a folder of the repository that it writes to.
	command string
	// owns is a pattern of files: the command makes all of them, so others that match are stale.
	owns string
	// stamp is the file with the hash of inputs, for a command that needs more than Go.
	stamp  string
	inputs []string
}

const (
	codecgen = "go run github.com/gyrohq/gyro/tools/codecgen "
	out      = "OUT/"
)

var products = []product{
	{name: "protocol", dir: "protocol", command: codecgen + "-schema client.proto -out OUT/protocol"},
	{name: "client-protocol.md", dir: "protocol", command: codecgen + "-schema client.proto -reference client-protocol.md.tmpl -out OUT/docs"},
	{name: "codes.md", dir: "protocol", command: "go run github.com/gyrohq/gyro/tools/codedoc -template codes.md.tmpl -out OUT/docs/codes.md codes.go ../server/internal/api/errors.go"},
	{name: "control", dir: "internal/cluster/control", command: codecgen + "-json=false -schema control.proto -package control -out OUT/internal/cluster/control"},
	{name: "api", dir: "server/internal/api", command: codecgen + "-schema api.proto -package api -elements 1048576 -out OUT/server/internal/api"},
	{name: "api-reference.md", dir: "server/internal/api", command: codecgen + "-schema api.proto -reference api-reference.md.tmpl -out OUT/docs"},
	{name: "openapi", dir: "server/internal/web/swagger", command: codecgen + "-schema ../../api/api.proto -openapi openapi.yaml -out OUT/server/internal/web/swagger"},
	{name: "api.binpb", dir: "server/internal/api/grpcapi", command: codecgen + "-schema ../api.proto -descriptor api.binpb -out OUT/server/internal/api/grpcapi"},
	{name: "python-client", dir: "server/internal/api", command: codecgen + "-schema api.proto -python -out OUT/clients/python/src/gyro_api"},
	{name: "proxy", dir: "server/internal/proxy/message", command: codecgen + "-schema proxy.proto -package message -elements 65536 -service=false -out OUT/server/internal/proxy/message"},
	{name: "configuration.md", dir: "server/internal/config", command: "go run ./internal/configdoc OUT/docs", owns: "docs/configuration/*.md"},
	{name: "kubernetes", dir: ".", command: "go run ./tools/chart -f deploy/helm/values-million.yaml -out OUT/deploy/kubernetes gyro deploy/helm/gyro", owns: "deploy/kubernetes/*.yaml"},
	{name: "dashboard", dir: ".", command: "go run ./tools/dashboard -out OUT/"},
	{name: "packages.md", dir: ".", command: "go run ./tools/layers -packages OUT/docs/packages.md"},
	{name: "decisions", dir: ".", command: "go run ./tools/docindex OUT/docs/decisions/README.md"},
	{name: "CONTRIBUTING.md", dir: ".", command: "go run ./tools/loop -table OUT/CONTRIBUTING.md"},
	{
		name: "admin-ui", dir: ".", command: "scripts/admin-ui.sh OUT/server/internal/operators/admin/ui", owns: "server/internal/operators/admin/ui/*.gz", stamp: "server/internal/operators/admin/ui/made",
		inputs: []string{"admin/index.html", "admin/package-lock.json", "admin/package.json", "admin/public", "admin/src", "admin/tsconfig.json", "admin/vite.config.ts", "scripts/admin-ui.sh"},
	},
}

func main() {
	check := flag.Bool("check", false, "compare instead of writing")
	all := flag.Bool("all", false, "make also what a stamp says is fresh")
	flag.Parse()
	chosen := products
	if names := flag.Args(); len(names) > 0 {
		chosen = slices.DeleteFunc(slices.Clone(products), func(p product) bool { return !slices.Contains(names, p.name) })
	}
	run := write
	if *check {
		run = compare
	}
	if err := run(".", chosen, *all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Products with a right stamp are made only if all is true.
func write(root string, list []product, all bool) error {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	var due []product
	for _, p := range list {
		if !all && p.stamp != "" && checkStamp(root, p) == nil {
			continue
		}
		due = append(due, p)
		owned, err := p.owned(root)
		if err != nil {
			return err
		}
		for _, name := range owned {
			if err := os.Remove(filepath.Join(root, name)); err != nil {
				return err
			}
		}
	}
	if err := makeAll(root, absolute, due); err != nil {
		return err
	}
	for _, p := range due {
		if p.stamp == "" {
			continue
		}
		if err := writeStamp(root, p); err != nil {
			return err
		}
	}
	return nil
}

func (p *product) owned(root string) ([]string, error) {
	if p.owns == "" {
		return nil, nil
	}
	return fs.Glob(os.DirFS(root), p.owns)
}

// makeAll lets the commands write below target.
func makeAll(root, target string, list []product) error {
	var group errgroup.Group
	group.SetLimit(4)
	for _, p := range list {
		group.Go(func() error {
			args := strings.Fields(p.command)
			for i, arg := range args {
				if rest, ok := strings.CutPrefix(arg, out); ok {
					args[i] = filepath.Join(target, rest)
				}
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = filepath.Join(root, p.dir)
			if printed, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %s: %w\n%s", p.name, p.command, err, printed)
			}
			return nil
		})
	}
	return group.Wait()
}

// compare returns an error with the names of files that differ. For products with a stamp it compares only the stamp,
// unless all is true.
func compare(root string, list []product, all bool) error {
	target, err := os.MkdirTemp("", "gyro-generate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(target) }()
	var stale []string
	var due []product
	for _, p := range list {
		if p.stamp != "" {
			if err := checkStamp(root, p); err != nil {
				stale = append(stale, err.Error())
			}
		}
		if p.stamp == "" || all {
			due = append(due, p)
		}
	}
	if err := makeFolders(target, due); err != nil {
		return err
	}
	if err := makeAll(root, target, due); err != nil {
		return err
	}
	different, err := differences(root, target)
	if err != nil {
		return err
	}
	orphans, err := orphans(root, target, due)
	if err != nil {
		return err
	}
	stale = append(append(stale, different...), orphans...)
	if len(stale) > 0 {
		slices.Sort(stale)
		return fmt.Errorf("stale, run make generate:\n\t%s", strings.Join(stale, "\n\t"))
	}
	return nil
}

func orphans(root, target string, list []product) (names []string, err error) {
	for _, p := range list {
		owned, err := p.owned(root)
		if err != nil {
			return nil, err
		}
		for _, name := range owned {
			if _, err := os.Stat(filepath.Join(target, name)); errors.Is(err, fs.ErrNotExist) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func makeFolders(target string, list []product) error {
	for _, p := range list {
		for _, arg := range strings.Fields(p.command) {
			rest, ok := strings.CutPrefix(arg, out)
			if !ok {
				continue
			}
			if filepath.Ext(rest) != "" {
				rest = filepath.Dir(rest)
			}
			if err := os.MkdirAll(filepath.Join(target, rest), 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// differences returns the names of the files below target that root has otherwise or lacks.
func differences(root, target string) (names []string, err error) {
	err = filepath.WalkDir(target, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(target, path)
		if err != nil {
			return err
		}
		made, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || !bytes.Equal(made, committed) {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}
