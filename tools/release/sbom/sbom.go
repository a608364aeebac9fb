// Package sbom describes the contents of a binary, as a CycloneDX document.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

// Subject is the binary that a document is about.
type Subject struct {
	// File is its name in the release, Program its content.
	File    string
	Program []byte
	// Version of the release without the leading v; Commit and Time of its source.
	Version, Commit string
	Time            time.Time
}

// The modules of the repository have the version of the release.
const (
	library = "github.com/gyrohq/gyro"
	license = "Apache-2.0"
)

// Write writes the document: the modules that the Go linker put into the binary, their checksums, and the
// standard library.
func Write(w io.Writer, s Subject) error {
	info, err := buildinfo.Read(bytes.NewReader(s.Program))
	if err != nil {
		return fmt.Errorf("%s: %w", s.File, err)
	}
	sum := sha256.Sum256(s.Program)
	main := component(info.Main.Path, "v"+s.Version)
	main.Type = cdx.ComponentTypeApplication
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: license}}}
	main.ExternalReferences = &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: "https://" + library}}
	properties := []cdx.Property{{Name: "file", Value: s.File}, {Name: "commit", Value: s.Commit}}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "CGO_ENABLED", "GOARCH", "GOOS":
			properties = append(properties, cdx.Property{Name: setting.Key, Value: setting.Value})
		}
	}
	components := []cdx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"))}
	needed := []string{components[0].BOMRef}
	for _, dep := range info.Deps {
		if dep.Replace != nil && dep.Replace.Version != "" {
			dep = dep.Replace
		}
		version := dep.Version
		if dep.Path == library || strings.HasPrefix(dep.Path, library+"/") {
			version = "v" + s.Version
		}
		c := component(dep.Path, version)
		components = append(components, c)
		needed = append(needed, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: s.Time.UTC().Format(time.RFC3339), Component: &main, Properties: &properties}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needed}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func component(path, version string) cdx.Component {
	namespace, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		namespace, name = path[:i], path[i+1:]
	}
	url := packageurl.NewPackageURL(packageurl.TypeGolang, namespace, name, version, nil, "").ToString()
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cdx.ScopeRequired}
}
