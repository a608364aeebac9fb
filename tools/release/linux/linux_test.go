package linux

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/need"
)

// TestSigned: with a key, the packages are signed by it, and what verifies packages of the two kinds accepts them, but not when
// they were changed.
func TestSigned(t *testing.T) {
	need.Program(t, "gpg")
	need.Program(t, "rpm")
	dir := t.TempDir()
	run := func(stdin io.Reader, program string, args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Stdin, cmd.Env = dir, stdin, append(os.Environ(), "GNUPGHOME="+dir, "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return out
	}
	must("", os.Chmod(dir, 0o700))
	// Never used again, so without a passphrase.
	must(run(nil, "gpg", "--batch", "--passphrase", "", "--quick-generate-key", "Test <test@example.com>", "rsa2048", "sign", "1d"))
	t.Cleanup(func() { _, _ = run(nil, "gpgconf", "--kill", "gpg-agent") })
	must(run(nil, "gpg", "--batch", "--armor", "--output", "secret.asc", "--export-secret-keys"))
	must(run(nil, "gpg", "--batch", "--armor", "--output", "public.asc", "--export"))
	for _, name := range []string{"gyro", "completion.bash", "completion.zsh", "completion.fish", "gyro.1.gz"} {
		must("", os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	tree, err := filepath.Abs("../../..")
	must("", err)
	p := Package{Tree: tree, Version: "1.2.3", Time: time.Unix(1_700_000_000, 0), Arch: "amd64", Files: dir}
	t.Setenv(SigningKey, "")
	must("", p.Write(t.Context(), "deb", filepath.Join(dir, "gyro.deb")))
	if members := archive(read(os.ReadFile(filepath.Join(dir, "gyro.deb")))); len(members) != 3 {
		t.Errorf("without a key, a deb has %d members", len(members))
	}
	t.Setenv(SigningKey, filepath.Join(dir, "secret.asc"))
	for _, format := range Formats() {
		must("", p.Write(t.Context(), format, filepath.Join(dir, "gyro."+format)))
	}

	must(run(nil, "rpm", "--dbpath", dir+"/db", "--import", "public.asc"))
	if out := must(run(nil, "rpm", "--dbpath", dir+"/db", "-K", "gyro.rpm")); !strings.Contains(out, "signatures OK") {
		t.Error(out)
	}
	changed := read(os.ReadFile(filepath.Join(dir, "gyro.rpm")))
	changed[len(changed)-100] ^= 1
	must("", os.WriteFile(filepath.Join(dir, "changed.rpm"), changed, 0o600))
	if out, err := run(nil, "rpm", "--dbpath", dir+"/db", "-K", "changed.rpm"); err == nil {
		t.Errorf("a changed rpm is accepted: %s", out)
	}

	members := archive(read(os.ReadFile(filepath.Join(dir, "gyro.deb"))))
	must("", os.WriteFile(filepath.Join(dir, "deb.sig"), members["_gpgorigin"], 0o600))
	var signed []byte
	for _, name := range []string{"debian-binary", "control.tar.gz", "data.tar.gz"} {
		signed = append(signed, members[name]...)
	}
	if out, err := run(bytes.NewReader(signed), "gpg", "--verify", "deb.sig", "-"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run(bytes.NewReader(signed[1:]), "gpg", "--verify", "deb.sig", "-"); err == nil {
		t.Errorf("a changed deb is accepted: %s", out)
	}
}

// read returns what was read.
func read[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// archive returns the members of an ar archive.
func archive(data []byte) map[string][]byte {
	const head = 60
	out := make(map[string][]byte)
	data, ok := bytes.CutPrefix(data, []byte("!<arch>\n"))
	for ok && len(data) >= head {
		name := strings.TrimRight(string(data[:16]), " /")
		size := 0
		for _, digit := range strings.TrimSpace(string(data[48:58])) {
			size = 10*size + int(digit-'0')
		}
		out[name] = data[head : head+size]
		data = data[min(len(data), head+size+size%2):]
	}
	return out
}
