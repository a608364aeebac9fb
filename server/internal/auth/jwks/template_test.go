package jwks

import (
	"regexp"
	"strings"
	"testing"
)

func TestTemplate(t *testing.T) {
	values := map[string]string{"realm": "eu", "up": "..", "x": "", "host": "@evil.example", "q": "1"}
	for _, tt := range []struct{ text, want, failure string }{
		{"https://idp.example/{{realm}}/certs", "https://idp.example/eu/certs", ""},
		{"https://idp.example:8443/certs?r={{realm}}&x={{none}}", "https://idp.example:8443/certs?r=eu&x=", ""},
		{"https://idp.example", "https://idp.example", ""},
		{"https://idp.example/", "https://idp.example/", ""},
		{"http://u:p@idp.example/{{q}}/{{realm}}", "http://u:p@idp.example/1/eu", ""},
		{"https://idp.example/{{up}}/certs", "", "the path has"},
		{"https://idp.example/{{x}}/certs", "", "the path has"},
		{"https://idp.example/certs/{{x}}", "", "the path has"},
		{"https://idp.example/certs/", "", "the path has"},
		{"https://idp.example//certs", "", "the path has"},
		{"https://idp.example/%2e%2e/certs", "", "the path has"},
		{"https://idp.example{{host}}/certs", "", "not an http"},
		{"https://{{realm}}.example/certs", "", "not an http"},
		{"https://idp.example:{{q}}/certs", "", "not an http"},
		{"{{realm}}://idp.example/certs", "", "not an http"},
		{"https://idp.example/certs#{{realm}}", "", "path and query only"},
		{"https://idp.example/{{}}", "", "a placeholder is not {{name}}"},
		{"https://idp.example/{{a b}}", "", "a placeholder is not {{name}}"},
		{"https://idp.example/{{a", "", "a placeholder is not {{name}}"},
		{"ftp://idp.example/certs", "", "not an http"},
		{"idp.example/certs", "", "not an http"},
		{"x", "", "not an http"},
	} {
		template, err := ParseTemplate(tt.text)
		var got string
		if err == nil {
			got, err = template.URL(values)
		}
		if got != tt.want || (err == nil) != (tt.failure == "") || err != nil && !strings.Contains(err.Error(), tt.failure) {
			t.Errorf("%s: %q, error %v", tt.text, got, err)
		}
	}
}

func TestCheckSafe(t *testing.T) {
	template, err := ParseTemplate("https://idp.example/{{realm}}/certs")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, safe := range map[string]bool{
		`^https://idp\.example/(?P<realm>eu|us)$`: true,
		`(?<realm>eu|eu-west|a|b|(?:x|y)z)`:       true,
		`.*/(?P<realm>eu)/(?P<other>.+)`:          true, // other fills no placeholder
		`(?P<other>\x5b)(?P<realm>a\.b|a\[b)`:     true,
		`x`:                                       true,
		`(?P<realm>.+)`:                           false,
		`(?P<realm>eu.)`:                          false,
		`(?P<realm>eu?)`:                          false,
		`(?P<realm>(?:eu)*)`:                      false,
		`(?P<realm>a{3})`:                         false,
		`(?P<realm>(?P<inner>a+))`:                false,
		`(?P<realm>[a-z])`:                        false,
		`(?P<realm>eu)[0-9]`:                      false,
		`(?P<realm>eu)\d`:                         false,
		`(?P<realm>\pL)`:                          false,
		`\Qa\\E[a-z](?P<realm>eu)`:                false,
		`(?P<a>(?P<realm>\w))`:                    false,
		`(?P<realm>eu$)`:                          false,
		`(?i)(?P<realm>eu|us)`:                    true,
		`^https://idp\.example/(?P<realm>[a-z0-9-]{1,9})`: false,
	} {
		for _, patterns := range [][]*regexp.Regexp{{regexp.MustCompile(pattern), nil}, {nil, regexp.MustCompile(pattern)}} {
			if err := template.CheckSafe(patterns...); (err == nil) != safe {
				t.Errorf("%s: %v", pattern, err)
			}
		}
	}
	static, err := ParseTemplate("https://idp.example/certs")
	if err != nil {
		t.Fatal(err)
	}
	if err := static.CheckSafe(regexp.MustCompile(`(?P<realm>.+)`)); err != nil {
		t.Error(err)
	}
}

// A pattern that is found safe yields no value with a character that the pattern does not have.
func FuzzCheckSafe(f *testing.F) {
	f.Add(`(?P<r>eu|us)`, "eu")
	f.Add(`(?P<r>(a|b)c)|x(?P<s>.*)`, "bc")
	f.Add(`\Q(\E(?P<r>a)[`, "(a")
	template, err := ParseTemplate("https://idp.example/{{r}}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pattern, claim string) {
		re, err := regexp.Compile(pattern)
		if err != nil || template.CheckSafe(re) != nil || strings.Contains(pattern, `\x`) || regexp.MustCompile(`\(\?[a-zA-Z-]*i`).MatchString(pattern) {
			return
		}
		i := re.SubexpIndex("r")
		m := re.FindStringSubmatch(claim)
		if i < 0 || m == nil {
			return
		}
		for _, c := range m[i] {
			if !strings.ContainsRune(pattern, c) && !strings.ContainsRune("\a\f\n\r\t\v", c) && !strings.Contains(pattern, `\`) {
				t.Fatalf("%q takes %q from %q", pattern, m[i], claim)
			}
		}
	})
}
