// Package linux makes the deb and rpm packages, with nfpm. deploy/packages/nfpm.yaml lists their contents.
package linux

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// nfpm is the tool, which the go command builds when it is asked for.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"

// SigningKey is the variable with the file of an OpenPGP secret key, armored or not, that signs the packages; unset: they are not
// signed. NFPM_PASSPHRASE has its passphrase, if there is one.
const SigningKey = "GYRO_SIGNING_KEY"

// Package has the parts of a package.
type Package struct {
	Tree string
	// Version of the release without the leading v, Time of its source.
	Version string
	Time    time.Time
	Arch    string
	// Files is the folder with gyro, completion.bash, .zsh and .fish, and gyro.1.gz.
	Files string
}

// Formats are the kinds of packages.
func Formats() []string { return []string{"deb", "rpm"} }

// Write makes a package of a format. The same files give the same bytes, but for a signature.
func (p Package) Write(ctx context.Context, format, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	files, err := filepath.Abs(p.Files)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", nfpm, "package", "--config", "deploy/packages/nfpm.yaml", "--packager", format, "--target", file)
	cmd.Dir = p.Tree
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GYRO_VERSION="+p.Version, "GYRO_ARCH="+p.Arch, "GYRO_FILES="+files,
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(p.Time.Unix(), 10))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("nfpm for %s: %w\n%s", filepath.Base(file), err, output.Bytes())
	}
	return nil
}
