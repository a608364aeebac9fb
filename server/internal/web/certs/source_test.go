package certs

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// TestNoDescriptors: a process without file descriptors cannot read files, and does not take that for a change of them. At the start
// it is an error.
func TestNoDescriptors(t *testing.T) {
	text, fault := "a certificate", error(nil)
	s := &source{
		read:  func() ([]byte, error) { return []byte(text), fault },
		apply: func([]byte) error { return nil },
	}
	short := fmt.Errorf("cert_pem: %w", &os.PathError{Op: "open", Path: "cert.pem", Err: syscall.EMFILE})
	fault = short
	if err := s.load(); err == nil {
		t.Error("a start without descriptors succeeds")
	}
	s, fault = &source{read: s.read, apply: s.apply}, nil
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	fault = short
	if changed, err := s.refresh(); changed || err != nil || s.refused {
		t.Errorf("without descriptors: changed %v, %v, refused %v", changed, err, s.refused)
	}
	fault, text = nil, "another certificate"
	if changed, err := s.refresh(); !changed || err != nil || s.refused {
		t.Errorf("with descriptors again: changed %v, %v, refused %v", changed, err, s.refused)
	}
	fault = os.ErrNotExist
	if changed, err := s.refresh(); changed || err == nil || !s.refused {
		t.Errorf("without the file: changed %v, %v, refused %v", changed, err, s.refused)
	}
}
