// Package image makes the OCI image of a release: a static binary and the few files of a system that it needs, for
// several architectures, without a container engine. The same binaries give the same bytes.
package image

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/gyrohq/gyro/tools/release/pack"
)

// Release has the parts of an image.
type Release struct {
	// Name and tag of the image, as in docker run NAME:TAG.
	Name, Tag string
	// Version without the leading v; Commit and Time of the source.
	Version, Commit string
	Time            time.Time
	// Programs are the static Linux binaries by their architecture in the names of Go.
	Programs []Program
}

// Program is a binary for an architecture.
type Program struct {
	Arch string
	Data []byte
}

func system() []pack.File {
	folder := func(name string, mode fs.FileMode) pack.File { return pack.File{Name: name, Mode: mode | fs.ModeDir} }
	file := func(name string, data []byte) pack.File { return pack.File{Name: name, Mode: 0o644, Data: data} }
	return []pack.File{
		folder("etc", 0o755),
		file("etc/group", []byte("root:x:0:\ngyro:x:65532:\n")),
		folder("etc/gyro", 0o755),
		file("etc/passwd", []byte("root:x:0:0:root:/:/nonexistent\ngyro:x:65532:65532:gyro:/etc/gyro:/nonexistent\n")),
		folder("etc/ssl", 0o755),
		folder("etc/ssl/certs", 0o755),
		file("etc/ssl/certs/ca-certificates.crt", authorities()), // for TLS to backends, Redis, NATS and PostgreSQL
		folder("tmp", 0o777|fs.ModeSticky),
	}
}

// authorities leaves out certificates that Mozilla trusts with a condition, because a file of certificates cannot state
// one.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return text.Bytes()
}

// Index is the image for all architectures.
func Index(r Release) (v1.ImageIndex, error) {
	base, err := layer(system(), r.Time)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.Programs {
		img, err := r.image(base, p)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.Arch}},
		})
	}
	return index, nil
}

func layer(files []pack.File, changed time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	if err := pack.Tar(&archive, files, changed); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(6), tarball.WithCompressedCaching)
}

func (r Release) image(base v1.Layer, p Program) (v1.Image, error) {
	program, err := layer([]pack.File{{Name: "gyro", Mode: 0o755, Data: p.Data}}, r.Time)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.Time.UTC()}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: v1.History{Created: created, CreatedBy: "certificates and a user"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: "gyro " + r.Version}})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", p.Arch, created
	file.Config = v1.Config{
		User: "65532:65532", // numbers, so that Kubernetes can check that it is not root
		Env:  []string{"PATH=/"},
		// The default configuration file is there; everything else can come from GYRO_… variables.
		WorkingDir:   "/etc/gyro",
		Entrypoint:   []string{"/gyro"},
		ExposedPorts: map[string]struct{}{"8000/tcp": {}, "9000/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Gyro",
			"org.opencontainers.image.version":  r.Version,
			"org.opencontainers.image.revision": r.Commit,
			"org.opencontainers.image.source":   "https://github.com/gyrohq/gyro",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, file)
}

// Write writes an archive with the image for all architectures as an OCI layout, which docker load, podman load,
// skopeo and Push read. Versions of Docker that know no layouts find the first program's image in it.
func Write(w io.Writer, r Release) error {
	index, err := Index(r)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "gyro-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the system cleans its folder for temporary files, too
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	tag := r.Name + ":" + r.Tag
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": "docker.io/library/" + tag, "org.opencontainers.image.ref.name": r.Tag,
	}))
	if err != nil {
		return err
	}
	files, err := readTree(folder)
	if err != nil {
		return err
	}
	manifest, err := legacy(index, tag)
	if err != nil {
		return err
	}
	return pack.Tar(w, append(files, pack.File{Name: "manifest.json", Mode: 0o644, Data: manifest}), r.Time)
}

func readTree(folder string) (files []pack.File, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		f := pack.File{Name: filepath.ToSlash(name), Mode: fs.ModeDir | 0o755}
		if !entry.IsDir() {
			f.Mode = 0o644
			f.Data, err = os.ReadFile(path)
		}
		files = append(files, f)
		return err
	})
	return files, err
}

func legacy(index v1.ImageIndex, tag string) ([]byte, error) {
	images, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	img, err := index.Image(images.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	entry := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{tag}}
	for _, l := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(l.Digest))
	}
	return json.Marshal(tarball.Manifest{entry})
}
