// Package brew writes the Homebrew formula of a release.
package brew

import (
	"fmt"
	"io"
	"text/template"
)

// Archive is a file of the release for one system.
type Archive struct{ OS, Arch, URL, SHA256 string }

// Write writes the formula of a version, without the leading v. It needs the archives of macOS and Linux on both
// architectures.
func Write(w io.Writer, version string, archives []Archive) error {
	found := map[string]Archive{}
	for _, a := range archives {
		found[a.OS+"_"+a.Arch] = a
	}
	for _, needed := range []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"} {
		if _, ok := found[needed]; !ok {
			return fmt.Errorf("the formula needs the archive of %s", needed)
		}
	}
	return formula.Execute(w, map[string]any{"Version": version, "Archives": found})
}

var formula = template.Must(template.New("gyro.rb").Parse(`# Made by make release.
class Gyro < Formula
  desc "Real-time messaging server"
  homepage "https://github.com/gyrohq/gyro"
  version "{{ .Version }}"
  license "Apache-2.0"
{{- define "archive" }}
      url "{{ .URL }}"
      sha256 "{{ .SHA256 }}"
{{- end }}

  on_macos do
    on_arm do
{{- template "archive" .Archives.darwin_arm64 }}
    end
    on_intel do
{{- template "archive" .Archives.darwin_amd64 }}
    end
  end

  on_linux do
    on_arm do
{{- template "archive" .Archives.linux_arm64 }}
    end
    on_intel do
{{- template "archive" .Archives.linux_amd64 }}
    end
  end

  def install
    bin.install "gyro"
    generate_completions_from_executable(bin/"gyro", "completion")
  end

  # A configuration with secrets of its own, which an update keeps.
  def post_install
    (etc/"gyro").mkpath
    config = etc/"gyro/config.json"
    system bin/"gyro", "genconfig", "-c", config unless config.exist?
  end

  service do
    run [opt_bin/"gyro", "-c", etc/"gyro/config.json"]
    keep_alive true
    log_path var/"log/gyro.log"
    error_log_path var/"log/gyro.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gyro version")
    system bin/"gyro", "genconfig", "-c", testpath/"config.json"
    system bin/"gyro", "checkconfig", "-c", testpath/"config.json"
  end
end
`))
