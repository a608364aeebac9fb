package image

import (
	"bytes"
	"crypto/x509"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/gyrohq/gyro/tools/release/pack"
)

func release() Release {
	return Release{
		Name: "gyro", Tag: "1.2.3", Version: "1.2.3", Commit: "abc", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Programs: []Program{{"amd64", []byte("one")}, {"arm64", []byte("two")}},
	}
}

// written writes the image to a file.
func written(t *testing.T) string {
	t.Helper()
	var first, second bytes.Buffer
	if err := Write(&first, release()); err != nil {
		t.Fatal(err)
	}
	if err := Write(&second, release()); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Fatal("the same release has another image", err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, first.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// check checks an image for an architecture.
func check(t *testing.T, img v1.Image, arch, program string) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.OS != "linux" || config.Architecture != arch || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/gyro"}) ||
		c.WorkingDir != "/etc/gyro" || c.Labels["org.opencontainers.image.version"] != "1.2.3" || !config.Created.Equal(release().Time) {
		t.Errorf("%+v", config)
	}
	tree := mutate.Extract(img)
	defer tree.Close()
	content, err := io.ReadAll(tree)
	if err != nil || !bytes.Contains(content, []byte(program)) {
		t.Errorf("%s is not in the image for %s: %v", program, arch, err)
	}
}

// TestPush: what a registry gets is the image for both architectures.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/team/gyro:1.2.3"
	digest, err := Push(t.Context(), written(t), reference)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(digest)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	for arch, program := range map[string]string{"amd64": "one", "arm64": "two"} {
		img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		check(t, img, arch, program)
	}
}

// TestLoad: Docker without a store of OCI layouts finds the first image.
func TestLoad(t *testing.T) {
	tag, err := name.NewTag("gyro:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(written(t), &tag)
	if err != nil {
		t.Fatal(err)
	}
	check(t, img, "amd64", "one")
}

func TestPushErrors(t *testing.T) {
	if _, err := Push(t.Context(), "absent.tar", "localhost:1/gyro"); err == nil || !strings.Contains(err.Error(), "absent.tar") {
		t.Error(err)
	}
	if _, err := Push(t.Context(), "absent.tar", "///"); err == nil {
		t.Error("a reference that names nothing")
	}
	file := filepath.Join(t.TempDir(), "evil.tar")
	var archive bytes.Buffer
	if err := pack.Tar(&archive, []pack.File{{Name: "../outside", Mode: 0o644}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Push(t.Context(), file, "localhost:1/gyro"); err == nil || !strings.Contains(err.Error(), "evil.tar") || !strings.Contains(err.Error(), "escapes") {
		t.Error(err)
	}
}

// TestSystem: the certificates can be read, and the user has a name.
func TestSystem(t *testing.T) {
	files := map[string]string{}
	for _, f := range system() {
		files[f.Name] = string(f.Data)
	}
	pool := x509.NewCertPool()
	if text := files["etc/ssl/certs/ca-certificates.crt"]; !pool.AppendCertsFromPEM([]byte(text)) || strings.Count(text, "BEGIN") < 50 {
		t.Errorf("%d certificates", strings.Count(text, "BEGIN"))
	}
	if !strings.Contains(files["etc/passwd"], ":65532:65532:") {
		t.Error(files["etc/passwd"])
	}
}
