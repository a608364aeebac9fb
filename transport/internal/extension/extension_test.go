package extension

import (
	"strings"
	"testing"
)

func TestDeflateNegotiation(t *testing.T) {
	const plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	for _, tt := range []struct {
		fields []string
		want   string // "malformed": an error
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"permessage-deflate"}, plain},
		{[]string{"permessage-deflate; client_max_window_bits"}, plain},
		{[]string{"permessage-deflate;client_max_window_bits=9"}, plain},
		{[]string{`permessage-deflate ; client_max_window_bits = "10"`}, plain},
		{[]string{`permessage-deflate; client_max_window_bits="1\0"`}, plain},
		{[]string{"permessage-deflate; server_no_context_takeover; client_no_context_takeover"}, plain},
		{[]string{"permessage-deflate; server_max_window_bits=15"}, plain + "; server_max_window_bits=15"},
		{[]string{"permessage-deflate; server_max_window_bits=10"}, ""},
		{[]string{"permessage-deflate; server_max_window_bits"}, ""},
		{[]string{"permessage-deflate; server_max_window_bits=16"}, ""},
		{[]string{"permessage-deflate; client_max_window_bits=7"}, ""},
		{[]string{"permessage-deflate; client_max_window_bits=08"}, ""},
		{[]string{"permessage-deflate; client_max_window_bits=9; client_max_window_bits=9"}, ""},
		{[]string{"permessage-deflate; server_no_context_takeover=1"}, ""},
		{[]string{"permessage-deflate; unknown"}, ""},
		{[]string{"permessage-deflate; server_max_window_bits=10, permessage-deflate"}, plain},
		{[]string{"x-other; a=b", "permessage-deflate"}, plain},
		{[]string{"x-webkit-deflate-frame"}, ""},
		{[]string{",, permessage-deflate ,"}, plain},
		{[]string{"permessage-deflate; =1"}, "malformed"},
		{[]string{"permessage-deflate;"}, "malformed"},
		{[]string{"permessage-deflate; a="}, "malformed"},
		{[]string{`permessage-deflate; a="`}, "malformed"},
		{[]string{`permessage-deflate; a="\`}, "malformed"},
		{[]string{`permessage-deflate; a=""`}, "malformed"},
		{[]string{`permessage-deflate; a="b c"`}, "malformed"},
		{[]string{"permessage-deflate a"}, "malformed"},
		{[]string{"(x)"}, "malformed"},
	} {
		offers, err := Parse(tt.fields)
		got := AcceptDeflate(offers)
		if err != nil {
			got = "malformed"
		}
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.fields, got, tt.want)
		}
	}
}

func FuzzExtensions(f *testing.F) {
	f.Add(`permessage-deflate; client_max_window_bits="10"; a, b;c=d`)
	f.Fuzz(func(t *testing.T, s string) {
		list, err := Parse([]string{s})
		if err != nil {
			return
		}
		// What was understood means the same when it is written plainly.
		var b strings.Builder
		for _, e := range list {
			b.WriteString(e.name)
			for _, p := range e.params {
				b.WriteString(";" + p.name)
				if p.value != "" {
					b.WriteString("=" + p.value)
				}
			}
			b.WriteString(",")
		}
		again, err := Parse([]string{b.String()})
		if err != nil || AcceptDeflate(again) != AcceptDeflate(list) || len(again) != len(list) {
			t.Fatalf("%q became %q: %v", s, b.String(), err)
		}
	})
}
