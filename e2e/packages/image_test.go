//go:build linux

package packages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

type descriptor struct {
	Digest   string
	Platform struct{ Architecture, OS string }
}

type imageConfig struct {
	Config struct {
		User, WorkingDir string
		Env, Entrypoint  []string
	}
}

type layout map[string][]byte

// blob checks that the content is what its name says.
func (l layout) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	data := l["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	sum := sha256.Sum256(data)
	if d.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Fatalf("blob %s is missing, or another", d.Digest)
	}
	return data
}

func decode[T any](t *testing.T, data []byte) (value T) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestImage runs the entry point of the image, as its user, in its folder and environment, in a root that has nothing
// else.
func TestImage(t *testing.T) {
	l := layout(members(t, artefact(t, "_image.tar")))
	type index struct{ Manifests []descriptor }
	outer := decode[index](t, l["index.json"])
	if len(outer.Manifests) != 1 {
		t.Fatalf("%+v", outer)
	}
	images := decode[index](t, l.blob(t, outer.Manifests[0])).Manifests
	at := slices.IndexFunc(images, func(d descriptor) bool {
		return d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH
	})
	if at < 0 {
		t.Fatalf("%+v", images)
	}
	manifest := decode[struct {
		Config descriptor
		Layers []descriptor
	}](t, l.blob(t, images[at]))
	dir := t.TempDir()
	for _, d := range manifest.Layers {
		unzipped, err := gzip.NewReader(bytes.NewReader(l.blob(t, d)))
		if err != nil {
			t.Fatal(err)
		}
		untar(t, unzipped, dir)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // as a container's root is
		t.Fatal(err)
	}
	c := decode[imageConfig](t, l.blob(t, manifest.Config)).Config
	if c.User != "65532:65532" {
		t.Errorf("user %s", c.User)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "chroot", append([]string{"--userspec=" + c.User, "--groups=", dir}, append(slices.Clone(c.Entrypoint), args...)...)...)
		cmd.Env = slices.Clone(c.Env)
		return cmd
	}
	out, err := command("version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Gyro v") {
		t.Fatalf("%v %s", err, out)
	}
	// What it may not do: write to its root.
	if out, err := command("genconfig", "-c", filepath.Join(c.WorkingDir, "config.json")).CombinedOutput(); err == nil || !strings.Contains(string(out), "permission denied") {
		t.Errorf("%v %s", err, out)
	}
	serve(t, command(), []string{"GYRO_HTTP_API_KEY=of-a-variable"}, "of-a-variable", nil)
}
