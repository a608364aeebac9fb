package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkStamp returns an error if a product's files were not made from its present inputs.
func checkStamp(root string, p product) error {
	want, err := stamp(root, p)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(root, p.stamp))
	if err != nil || string(got) != want {
		return fmt.Errorf("%s: %s was made of other files", p.stamp, p.name)
	}
	return nil
}

func writeStamp(root string, p product) error {
	text, err := stamp(root, p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, p.stamp), []byte(text), 0o644)
}

func stamp(root string, p product) (string, error) {
	inputs, err := checksum(root, p.inputs)
	if err != nil {
		return "", err
	}
	made, err := p.owned(root)
	if err != nil {
		return "", err
	}
	outputs, err := checksum(root, made)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("made of %s\nmade    %s\n", inputs, outputs), nil
}

func checksum(root string, paths []string) (string, error) {
	sum := sha256.New()
	tree := os.DirFS(root)
	for _, path := range paths {
		err := fs.WalkDir(tree, path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
