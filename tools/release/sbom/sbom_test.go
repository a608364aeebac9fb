package sbom

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/gyrohq/gyro/internal/testkit/programtest"
)

// TestWrite describes a program of this module: one that has dependencies.
func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chart")
	if err := programtest.Build(file, "github.com/gyrohq/gyro/tools/chart"); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := Subject{File: "gyro_1.2.3_linux_amd64", Program: program, Version: "1.2.3", Commit: "abc", Time: time.Unix(1, 0)}
	var one, two bytes.Buffer
	if err := Write(&one, s); err != nil {
		t.Fatal(err)
	}
	if err := Write(&two, s); err != nil || one.String() != two.String() {
		t.Error("the same binary has other documents", err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&one, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Version != "v1.2.3" || c.Type != cdx.ComponentTypeApplication || len((*c.Hashes)[0].Value) != 64 {
		t.Errorf("%+v", c)
	}
	found := map[string]string{}
	for _, c := range *bom.Components {
		if c.BOMRef == "" || found[c.Name] != "" {
			t.Errorf("%+v", c)
		}
		found[c.Name] = c.PackageURL
	}
	if url := found["dario.cat/mergo"]; !strings.HasPrefix(url, "pkg:golang/dario.cat/mergo@v") {
		t.Errorf("%q of %d", url, len(found))
	}
	if found["std"] == "" {
		t.Error("the standard library is missing")
	}
	if needed := (*bom.Dependencies)[0].Dependencies; len(*needed) != len(*bom.Components) {
		t.Error(len(*needed), len(*bom.Components))
	}
}

func TestNotAProgram(t *testing.T) {
	if err := Write(&bytes.Buffer{}, Subject{File: "x", Program: []byte("text")}); err == nil || !strings.Contains(err.Error(), "x: ") {
		t.Error(err)
	}
}
