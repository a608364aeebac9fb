package dictionary

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

const text = `{"push":{"channel":"price:gold","pub":{"data":{"symbol":"XAUUSD","exchange":"OTC","currency":"USD","price":4000`

func deflate(t rapid.TB, data, dictionary []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriterDict(&out, 6, dictionary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func id(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

func learn(t *testing.T) *Dictionary {
	t.Helper()
	d, err := Learn(id(text), deflate(t, []byte(text), nil), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLearnAtOnce: clients that learn a dictionary at the same time share it.
func TestLearnAtOnce(t *testing.T) {
	t.Parallel()
	for round := range 200 {
		text := fmt.Sprint("learned by many at once, ", round)
		deflated := deflate(t, []byte(text), nil)
		var learned [4]*Dictionary
		var learning sync.WaitGroup
		start := make(chan struct{})
		for i := range learned {
			learning.Go(func() {
				<-start
				var err error
				if learned[i], err = Learn(id(text), deflated, 1000); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		learning.Wait()
		for _, d := range learned[1:] {
			if d != learned[0] {
				t.Fatalf("round %d: clients have different dictionaries of one text", round)
			}
		}
	}
}

// TestOpen: what was deflated comes back, in any order, and nothing beyond the limit.
func TestOpen(t *testing.T) {
	t.Parallel()
	d := learn(t)
	if d != learn(t) {
		t.Error("the same dictionary is kept twice")
	}
	rapid.Check(t, func(t *rapid.T) {
		want := []byte(strings.Repeat(text, rapid.IntRange(0, 3).Draw(t, "times")) + rapid.String().Draw(t, "rest"))
		for _, message := range [][]byte{append([]byte{0}, want...), append([]byte{1}, deflate(t, want, []byte(text))...)} {
			var got []byte
			err := d.Open(message, len(want), func(frame []byte) error {
				got = bytes.Clone(frame)
				return nil
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q %v, want %q", got, err, want)
			}
		}
	})
}

// TestWrong: whatever a server sends, the client has an error, and not too much memory.
func TestWrong(t *testing.T) {
	t.Parallel()
	d := learn(t)
	whole := append([]byte{1}, deflate(t, []byte("some text"), []byte(text))...)
	bomb := append([]byte{1}, deflate(t, make([]byte, 1<<20), nil)...)
	for name, message := range map[string][]byte{
		"empty": {}, "unknown": {2, 0}, "cut": whole[:len(whole)-3], "longer": append(whole[:len(whole):len(whole)], 0), "bomb": bomb, "no deflate": {1, 0xff, 0xff},
	} {
		err := d.Open(message, 1000, func([]byte) error { return nil })
		if !errors.As(err, new(*Error)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, one := range map[string]struct {
		id       string
		deflated []byte
	}{"another ID": {"AAAAAAAAAAAAAAAA", deflate(t, []byte(text), nil)}, "no deflate": {id(text), []byte{0xff}}, "bomb": {id(text), bomb[1:]}} {
		if _, err := Learn(one.id, one.deflated, 1000); !errors.As(err, new(*Error)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	own := errors.New("own")
	if err := d.Open(whole, 1000, func([]byte) error { return own }); err != own { //nolint:errorlint // it has to be the same
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{0, '{', '}'})
	f.Add([]byte{1, 3, 0})
	d := &Dictionary{text: []byte(text)}
	f.Fuzz(func(t *testing.T, message []byte) {
		err := d.Open(message, 1000, func(frame []byte) error {
			if len(frame) > 1000 && message[0] == 1 {
				t.Error("beyond the limit")
			}
			return nil
		})
		if err != nil && !errors.As(err, new(*Error)) {
			t.Error(err)
		}
	})
}
