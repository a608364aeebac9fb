package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"testing"
	"time"
)

var (
	changed = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	files   = []File{
		{Name: "a", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Name: "a/b", Mode: 0o750, Data: []byte("text"), Owner: 7},
	}
)

func TestTarGz(t *testing.T) {
	var one, two bytes.Buffer
	if err := TarGz(&one, files, changed); err != nil {
		t.Fatal(err)
	}
	if err := TarGz(&two, files, changed.In(time.FixedZone("", 3600))); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same files give other bytes", err)
	}
	unzipped, err := gzip.NewReader(&one)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(unzipped)
	folder, err := archive.Next()
	if err != nil || folder.Name != "a/" || folder.Mode != 0o1777 || folder.Typeflag != tar.TypeDir {
		t.Errorf("%+v %v", folder, err)
	}
	file, err := archive.Next()
	if err != nil || file.Name != "a/b" || file.Mode != 0o750 || file.Uid != 7 || file.Gid != 7 || !file.ModTime.Equal(changed) {
		t.Errorf("%+v %v", file, err)
	}
	if text, err := io.ReadAll(archive); string(text) != "text" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := archive.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestZip(t *testing.T) {
	var one, two bytes.Buffer
	if err := Zip(&one, files[1:], changed); err != nil {
		t.Fatal(err)
	}
	if err := Zip(&two, files[1:], changed.In(time.FixedZone("", 3600))); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same files give other bytes", err)
	}
	archive, err := zip.NewReader(bytes.NewReader(one.Bytes()), int64(one.Len()))
	if err != nil || len(archive.File) != 1 || archive.File[0].Mode() != 0o750 || !archive.File[0].Modified.Equal(changed) {
		t.Fatal(err, archive.File)
	}
	text, err := fs.ReadFile(archive, "a/b")
	if string(text) != "text" {
		t.Errorf("%q %v", text, err)
	}
}
