package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// developerPages are the pages that send their readers to files of the repository.
var developerPages = []string{"CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/changing.md", "docs/glossary.md", "docs/decisions/*.md"}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// A place is a path in backticks, and perhaps a word of the file: `internal/session/session.go:dispatch`.
	place     = regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)+)/?(?::([\\w.]+))?`")
	rootPlace = regexp.MustCompile("`(\\w+\\.go):([\\w.]+)`")
)

// places checks the files and folders in the pages for developers. A path counts if the repository has its first folder.
func (c *checker) places() error {
	for _, pattern := range developerPages {
		names, err := fs.Glob(c.tree, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			page, err := fs.ReadFile(c.tree, name)
			if err != nil {
				return err
			}
			text := codeBlock.ReplaceAllString(string(page), "")
			for _, m := range append(place.FindAllStringSubmatch(text, -1), rootPlace.FindAllStringSubmatch(text, -1)...) {
				if err := c.placeExists(m[1], m[2]); err != nil {
					c.errs = append(c.errs, fmt.Errorf("%s: %w", name, err))
				}
			}
		}
	}
	return nil
}

func (c *checker) placeExists(file, word string) error {
	if top, _, below := strings.Cut(file, "/"); below {
		if _, err := fs.Stat(c.tree, top); err != nil || top[0] == '.' {
			return nil // a path of something else, such as a request, or of a file that a command writes
		}
	}
	if _, err := fs.Stat(c.tree, path.Clean(file)); err != nil {
		return fmt.Errorf("there is no %s", file)
	}
	if word == "" {
		return nil
	}
	text, err := fs.ReadFile(c.tree, file)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(word, ".") {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(part) + `\b`).Match(text) {
			return fmt.Errorf("%s has no %s", file, part)
		}
	}
	return nil
}
