package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// changedFiles returns the files that differ from the last commit, also untracked ones; if there are none, the files of
// the last commit. Without git, it returns an error.
func changedFiles(ctx context.Context, r *runner) ([]string, error) {
	git := func(args ...string) ([]string, error) {
		printed, err := r.command(ctx, ".", nil, append([]string{"git", "-c", "core.quotepath=off"}, args...)...).Output()
		if err != nil {
			return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.FieldsFunc(string(printed), func(c rune) bool { return c == '\n' }), nil
	}
	differ, err := git("diff", "--name-only", "HEAD")
	if err != nil {
		return nil, err
	}
	unknown, err := git("ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	if files := append(differ, unknown...); len(files) > 0 {
		return files, nil
	}
	return git("diff", "--name-only", "HEAD^", "HEAD")
}

// affected returns the packages that have the files, or whose tests read them, and their direct importers. A file above
// all packages of a module, such as go.mod, belongs to all of them.
func (t *tree) affected(files []string) []string {
	touched := make(map[string]bool)
	for _, file := range files {
		for name, p := range t.packages {
			if p.has(file, t) || p.reads(file) {
				touched[name] = true
			}
		}
	}
	return t.choose(func(p *goPackage) bool {
		if touched[p.ImportPath] {
			return true
		}
		return slices.ContainsFunc(slices.Concat(p.Imports, p.TestImports, p.XTestImports), func(name string) bool {
			return touched[name] && t.packages[name].hasCode(files)
		})
	})
}

// has: the file is in the package's folder, or below it and in no other package.
func (p *goPackage) has(file string, t *tree) bool {
	base := path.Base(file)
	if base == "go.mod" || base == "go.sum" {
		dir := path.Dir(file)
		return dir == "." || strings.HasPrefix(p.folder()+"/", dir+"/")
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		name := module
		if dir != "." {
			name += "/" + dir
		}
		if t.packages[name] != nil {
			// A file far below the root belongs to no package by its place: the packages that embed or read it name it.
			return name == p.ImportPath && (dir != "." || path.Dir(file) == ".")
		}
		if dir == "." {
			return false
		}
	}
}

func (p *goPackage) hasCode(files []string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		return path.Dir(file) == path.Clean(p.folder()) && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go")
	})
}

func (p *goPackage) reads(file string) bool {
	return slices.ContainsFunc(p.Reads, func(read string) bool {
		return file == read || strings.HasPrefix(file, read+"/")
	})
}
