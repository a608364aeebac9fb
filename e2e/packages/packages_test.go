//go:build linux

// Package packages installs what a release publishes in a clean root, and runs it as the unit and the image say. It
// needs root: scripts/packages.sh makes the files and runs the tests.
package packages

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func given(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skip("make packages runs this test, as root")
	}
	return value
}

func artefact(t *testing.T, suffix string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(given(t, "E2E_DIST"), "*"+suffix))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q %v", suffix, found, err)
	}
	return found[0]
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestReproducible: another folder with the same source gives the same files.
func TestReproducible(t *testing.T) {
	first, second := given(t, "E2E_DIST"), given(t, "E2E_AGAIN")
	entries, err := os.ReadDir(first)
	if err != nil || len(entries) < 8 {
		t.Fatalf("%d files: %v", len(entries), err)
	}
	for _, entry := range entries {
		one, err := os.ReadFile(filepath.Join(first, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(second, entry.Name()))
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s is not the same the second time: %v", entry.Name(), err)
		}
	}
}

func TestChecksums(t *testing.T) {
	dir := given(t, "E2E_DIST")
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if lines := strings.Count(string(sums), "\n"); err != nil || lines != len(entries)-1 {
		t.Errorf("%d lines for %d files: %v", lines, len(entries), err)
	}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(dir, name))
		if got := sha256.Sum256(data); err != nil || hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type root struct {
	t   *testing.T
	dir string
}

func newRoot(t *testing.T) root {
	t.Helper()
	archive := given(t, "E2E_ROOT")
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to change roots and users")
	}
	dir := t.TempDir()
	run(t, "tar", "-C", dir, "--numeric-owner", "-xpf", archive)
	return root{t, dir}
}

func (r root) path(name string) string { return filepath.Join(r.dir, name) }

func (r root) inside(command ...string) string {
	r.t.Helper()
	return run(r.t, append([]string{"chroot", r.dir}, command...)...)
}

func (r root) copyIn(file, name string) {
	r.t.Helper()
	run(r.t, "cp", file, r.path(name))
}

func (r root) read(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(r.path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r root) append(name, text string) {
	r.t.Helper()
	f, err := os.OpenFile(r.path(name), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r root) gone(name string) {
	r.t.Helper()
	if _, err := os.Lstat(r.path(name)); !errors.Is(err, fs.ErrNotExist) {
		r.t.Errorf("%s is still there: %v", name, err)
	}
}

func (r root) id(file string) uint32 {
	r.t.Helper()
	for line := range strings.Lines(r.read("etc/" + file)) {
		if fields := strings.Split(line, ":"); fields[0] == "gyro" {
			var id uint32
			for _, digit := range fields[2] {
				id = id*10 + uint32(digit-'0')
			}
			return id
		}
	}
	r.t.Fatalf("%s has no gyro", file)
	return 0
}

// readable: a file belongs to root, and to the group of the server, which may read it.
func (r root) readable(name string, mode fs.FileMode) {
	r.t.Helper()
	info, err := os.Stat(r.path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != mode || owner.Uid != 0 || owner.Gid != r.id("group") {
		r.t.Errorf("%s: %s, owner %d:%d", name, info.Mode(), owner.Uid, owner.Gid)
	}
}

func (r root) installed(zsh string) {
	r.t.Helper()
	if got := r.inside("/usr/bin/gyro", "version"); !strings.HasPrefix(got, "Gyro v") || !strings.Contains(artefact(r.t, "_image.tar"), strings.TrimPrefix(strings.Fields(got)[1], "v")) {
		r.t.Errorf("version: %s", got)
	}
	r.readable("etc/gyro", 0o750)
	r.readable("etc/gyro/config.json", 0o640)
	r.readable("etc/gyro/gyro.env", 0o640)
	if text := r.read("etc/gyro/gyro.env"); strings.Count(text, "\n") != 4 || !strings.Contains(text, "GYRO_HTTP_API_KEY=") {
		r.t.Error("gyro.env has not the secrets")
	}
	for _, name := range []string{"bash-completion/completions/gyro", zsh + "/_gyro", "fish/vendor_completions.d/gyro.fish"} {
		if !strings.Contains(r.read("usr/share/"+name), "gyro") {
			r.t.Errorf("%s completes nothing", name)
		}
	}
	for name, want := range map[string]string{
		"usr/share/gyro/prometheus/alerts.yml": "alert: GyroNodeDown", "usr/share/gyro/grafana/gyro.json": "${prefix}_node_build",
		"usr/share/doc/gyro/examples/nginx.conf": "proxy_pass", "etc/logrotate.d/gyro": "/var/log/gyro/*.log",
	} {
		if !strings.Contains(r.read(name), want) {
			r.t.Errorf("%s has no %s", name, want)
		}
	}
	if got := run(r.t, "gzip", "-dc", r.path("usr/share/man/man1/gyro.1.gz")); !strings.HasPrefix(got, ".TH GYRO 1") {
		r.t.Errorf("manual page: %.100s", got)
	}
	r.rotates()
	if passwd := r.read("etc/passwd"); !strings.Contains(passwd, ":/usr/sbin/nologin") || r.id("passwd") == 0 {
		r.t.Error(passwd)
	}
}

// rotates runs logrotate with the packages' file, in another folder than /var/log/gyro.
func (r root) rotates() {
	r.t.Helper()
	dir := r.t.TempDir()
	rules := strings.NewReplacer("/var/log/gyro", dir, "su gyro gyro", "su root root", "create 0640 gyro gyro", "create 0640 root root").Replace(r.read("etc/logrotate.d/gyro"))
	for name, text := range map[string]string{"rules": rules, "gyro.log": "a line\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	run(r.t, "logrotate", "--force", "--state", filepath.Join(dir, "state"), filepath.Join(dir, "rules"))
	if old, err := os.ReadFile(filepath.Join(dir, "gyro.log.1")); err != nil || string(old) != "a line\n" {
		r.t.Errorf("%q %v", old, err)
	}
}

// TestDeb installs the package, runs the server as its unit says, and upgrades, removes and purges the package.
func TestDeb(t *testing.T) {
	r := newRoot(t)
	r.copyIn(artefact(t, ".deb"), "gyro.deb")
	out := r.inside("dpkg", "-i", "/gyro.deb")
	if !strings.Contains(out, "systemctl enable --now gyro") {
		t.Error(out)
	}
	r.installed("zsh/vendor-completions")
	if got := r.inside("dpkg-query", "-W", "-f=${Conffiles}", "gyro"); !strings.Contains(got, "/etc/gyro/config.json ") || strings.Contains(got, "gyro.env") {
		t.Errorf("conffiles: %s", got)
	}
	r.verify()
	r.serve()

	// The changes of an administrator survive an upgrade, and a removal.
	r.append("etc/gyro/config.json", "\n")
	r.append("etc/gyro/gyro.env", "GYRO_NODE_NAME=mine\n")
	config, secrets := r.read("etc/gyro/config.json"), r.read("etc/gyro/gyro.env")
	r.inside("dpkg", "-i", "/gyro.deb")
	if r.read("etc/gyro/config.json") != config || r.read("etc/gyro/gyro.env") != secrets {
		t.Error("an upgrade has changed the configuration")
	}
	r.inside("dpkg", "-r", "gyro")
	r.gone("usr/bin/gyro")
	if r.read("etc/gyro/config.json") != config || r.read("etc/gyro/gyro.env") != secrets {
		t.Error("the removal has changed the configuration")
	}
	r.inside("dpkg", "-P", "gyro")
	r.gone("etc/gyro")

	// A configuration that was there before keeps its secrets.
	if err := os.Mkdir(r.path("etc/gyro"), 0o750); err != nil {
		t.Fatal(err)
	}
	const old = `{"http_api":{"key":"of before"}}`
	if err := os.WriteFile(r.path("etc/gyro/config.json"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	r.inside("dpkg", "--force-confold", "-i", "/gyro.deb")
	r.gone("etc/gyro/gyro.env")
	if r.read("etc/gyro/config.json") != old {
		t.Error("the installation has changed a configuration that was there")
	}
	r.readable("etc/gyro/config.json", 0o640)
}

func TestRPM(t *testing.T) {
	r := newRoot(t)
	rpm := func(args ...string) string {
		t.Helper()
		return run(t, append([]string{"rpm", "--root", r.dir}, args...)...)
	}
	file := artefact(t, ".rpm")
	rpm("-i", "--nodeps", file) // Debian has what it needs, but no rpm says so
	r.installed("zsh/site-functions")
	if got := rpm("-qc", "gyro"); got != "/etc/gyro/config.json\n/etc/logrotate.d/gyro" {
		t.Errorf("configuration files: %s", got)
	}
	if got := run(t, "rpm", "-qp", "--requires", "--nosignature", file); !strings.Contains(got, "/usr/sbin/useradd") {
		t.Errorf("requires %s", got)
	}
	r.append("etc/gyro/config.json", "\n")
	config, secrets := r.read("etc/gyro/config.json"), r.read("etc/gyro/gyro.env")
	rpm("-U", "--nodeps", "--force", file)
	if r.read("etc/gyro/config.json") != config || r.read("etc/gyro/gyro.env") != secrets {
		t.Error("an upgrade has changed the configuration")
	}
	r.readable("etc/gyro/config.json", 0o640)
	rpm("-e", "gyro")
	r.gone("usr/bin/gyro")
	if r.read("etc/gyro/config.json.rpmsave") != config || r.read("etc/gyro/gyro.env") != secrets {
		t.Error("the removal has lost the configuration")
	}
}

func untar(t *testing.T, archive io.Reader, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "tar", "-C", dir, "--numeric-owner", "-xpf", "-")
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func members(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string][]byte{}
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
