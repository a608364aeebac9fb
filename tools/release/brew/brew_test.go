package brew

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/need"
)

func archives() (all []Archive) {
	for _, system := range []string{"darwin", "linux", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, Archive{system, arch, "https://example.org/" + system + "_" + arch, "sum-" + system + "-" + arch})
		}
	}
	return all
}

func TestWrite(t *testing.T) {
	var text bytes.Buffer
	if err := Write(&text, "1.2.3", archives()); err != nil {
		t.Fatal(err)
	}
	for _, a := range archives() {
		if pair := "url \"" + a.URL + "\"\n      sha256 \"" + a.SHA256 + "\"\n"; strings.Contains(text.String(), pair) != (a.OS != "windows") {
			t.Errorf("%+v in\n%s", a, text.String())
		}
	}
	if !strings.Contains(text.String(), `version "1.2.3"`) {
		t.Error(text.String())
	}
	if !need.Have(t, "ruby") {
		return
	}
	check := exec.CommandContext(t.Context(), "ruby", "-c")
	check.Stdin = &text
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestMissing(t *testing.T) {
	if err := Write(&bytes.Buffer{}, "1.2.3", archives()[1:]); err == nil || !strings.Contains(err.Error(), "darwin_amd64") {
		t.Error(err)
	}
}
