package dictionary

import (
	"bytes"
	"compress/flate"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/transport/websocket"
)

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, size int) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good, large, empty := file("good", 100), file("large", websocket.MaxDictionary+1), file("empty", 0)
	d := func(name, profile, encoding, file string) config.Dictionary {
		return config.Dictionary{Name: name, Profile: profile, Encoding: encoding, File: file}
	}
	for _, c := range []struct {
		list []config.Dictionary
		want string
	}{
		{nil, ""},
		{[]config.Dictionary{d("a", "", "json", good), d("b", "", "protobuf", good), d("c", "p", "json", good)}, ""},
		{[]config.Dictionary{d("", "", "json", good)}, "websocket.dictionaries[0]().name: is required"},
		{[]config.Dictionary{d("a", "", "", good)}, "websocket.dictionaries[0](a).encoding: is required"},
		{[]config.Dictionary{d("a", "", "json", "")}, "websocket.dictionaries[0](a).file: is required"},
		{[]config.Dictionary{d("a", "", "json", dir+"/none")}, "websocket.dictionaries[0](a).file: open " + dir + "/none"},
		{[]config.Dictionary{d("a", "", "json", large)}, "large has 32769 bytes, and a dictionary 1 to 32768"},
		{[]config.Dictionary{d("a", "", "json", empty)}, "empty has 0 bytes"},
		{[]config.Dictionary{d("a", "", "json", good), d("a", "p", "json", good)}, `websocket.dictionaries[1](a).name: "a" is given twice`},
		{[]config.Dictionary{d("a", "p", "json", good), d("b", "p", "json", good)}, `websocket.dictionaries[1](b).profile: there is another`},
	} {
		loaded, err := Load(c.list)
		switch {
		case c.want == "" && (err != nil || len(loaded) != len(c.list)):
			t.Errorf("%+v: %v", c.list, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %s", c.list, err, c.want)
		}
	}
}

// message of a user, with something that is the user's alone.
func message(user, n int) Sample {
	return Sample{Source: fmt.Sprint("user ", user), Text: fmt.Appendf(nil,
		`{"push":{"channel":"orders:%d","pub":{"data":{"status":"delivered","currency":"EUR","total":%d,"address":"Secret Street %d"},"offset":%d}}}`,
		user, n*37%1000, user*7919, n)}
}

// Messages that are like the samples become much smaller.
func TestTrain(t *testing.T) {
	var samples []Sample
	for n := range 400 {
		samples = append(samples, message(n%50, n))
	}
	data := Train(samples, Options{Size: 4 << 10, Sources: 20})
	if len(data) == 0 || len(data) > 4<<10 {
		t.Fatalf("%d bytes", len(data))
	}
	var out bytes.Buffer
	w, err := flate.NewWriterDict(&out, 6, data)
	if err != nil {
		t.Fatal(err)
	}
	text := message(1234, 5678).Text
	_, _ = w.Write(text)
	_ = w.Close()
	if out.Len() > len(text)/3 {
		t.Errorf("%d bytes of %d with the dictionary %q", out.Len(), len(text), data)
	}
}

// Whatever the samples are, each text of the dictionary is in those of enough sources, and there is nothing of
// what fewer have.
func TestTrainHidesWhatFewHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-d]{4,12}`), 1, 6).Draw(t, "words")
		sources := rapid.IntRange(1, 8).Draw(t, "sources")
		need := rapid.IntRange(2, 5).Draw(t, "need")
		own := rapid.Bool().Draw(t, "each sample is a source")
		var samples []Sample
		for i := range rapid.IntRange(1, 30).Draw(t, "samples") {
			var text strings.Builder
			for range rapid.IntRange(0, 5).Draw(t, "length") {
				text.WriteString(rapid.SampledFrom(words).Draw(t, "word"))
			}
			s := Sample{Text: []byte(text.String())}
			if !own {
				s.Source = fmt.Sprint(i % sources)
			}
			samples = append(samples, s)
		}
		tr := trainer{samples: samples, need: need}
		tr.begin()
		for _, x := range tr.texts() {
			seen := make(map[string]bool)
			for i, s := range samples {
				if strings.Contains(string(s.Text), x.text) {
					id := s.Source
					if own {
						id = fmt.Sprint(i)
					}
					seen[id] = true
				}
			}
			if len(seen) < need {
				t.Fatalf("%q is of %d sources, need %d", x.text, len(seen), need)
			}
		}
		if data := Train(samples, Options{Size: 64, Sources: need}); len(data) > 64 {
			t.Fatalf("%d bytes", len(data))
		}
	})
}
