// Package pack writes archives that depend on their files alone: the same files give the same bytes, at any time and on
// any machine.
package pack

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"time"
)

// File is a file or a folder of an archive.
type File struct {
	// Name is its path, with slashes.
	Name string
	// Mode has the permissions, fs.ModeDir for a folder, and fs.ModeSticky.
	Mode  fs.FileMode
	Data  []byte
	Owner int
}

// Tar writes files in their order, changed at one time.
func Tar(w io.Writer, files []File, changed time.Time) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Data)), Mode: int64(f.Mode.Perm()), ModTime: changed,
			Uid: f.Owner, Gid: f.Owner, Format: tar.FormatPAX,
		}
		if f.Mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, f.Name+"/"
		}
		if f.Mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.Data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// TarGz is Tar, compressed.
func TarGz(w io.Writer, files []File, changed time.Time) error {
	compressed := gzip.NewWriter(w)
	if err := Tar(compressed, files, changed); err != nil {
		return err
	}
	return compressed.Close()
}

// Zip writes files as Windows opens them.
func Zip(w io.Writer, files []File, changed time.Time) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: changed.UTC()}
		header.SetMode(f.Mode)
		out, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := out.Write(f.Data); err != nil {
			return err
		}
	}
	return archive.Close()
}
