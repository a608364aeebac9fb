package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push uploads an archive that Write has made as REGISTRY/NAME:TAG, with the credentials of docker login, and returns
// the digest for docker pull.
func Push(ctx context.Context, file, reference string) (string, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "gyro-image")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the system cleans its folder for temporary files, too
	if err := unpack(file, folder); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	index, err := open(folder)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return ref.Context().Digest(digest.String()).String(), err
}

func open(folder string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%d images, not one", len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

// unpack unpacks an archive to a folder, and nowhere else.
func unpack(file, folder string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, archive)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}
