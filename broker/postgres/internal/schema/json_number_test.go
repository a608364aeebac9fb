package schema

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/channel"
)

func TestGrows(t *testing.T) {
	for text, want := range map[string]bool{
		`1e400`: false, `1e401`: true, `[-1.5E-401]`: true, `{"a":1e+0000401}`: true, `1e00000000400`: false,
		`{"e401":"1e401"}`: false, `["\"1e401", 2]`: false, `["\\", 1e401]`: true, `[true,false,1]`: false,
		`1e99999999999999999999999999`: true, `1`: false, `"`: false, `"\`: false, `1e`: false, `e401`: false,
		`1.7976931348623157e308`: false, `5e-324`: false,
	} {
		if got := grows([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// A JSON text is refused if, and only if, a number in it has an exponent beyond the bound.
func TestGrowsAsDecoded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	parts := []string{`"`, `\`, `e`, `1`, `401`, `-`, `+`, `[`, `]`, `,`, `0.5`, `"x"`, `1e401`, `2E-9`, `{`, `}`, `:`, ` `, `true`}
	valid := 0
	for range 200_000 {
		var b strings.Builder
		for range 1 + random.IntN(8) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		text := []byte(b.String())
		if got := grows(text); json.Valid(text) {
			valid++
			if want := decodedGrows(text); got != want {
				t.Fatalf("%s: %v, want %v", text, got, want)
			}
		}
	}
	if valid < 1000 {
		t.Errorf("%d texts are JSON", valid)
	}
}

func decodedGrows(text []byte) bool {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		n, ok := token.(json.Number)
		if !ok {
			continue
		}
		if _, exp, ok := strings.Cut(strings.ToLower(n.String()), "e"); ok {
			e, _ := new(big.Int).SetString(exp, 10)
			if e.CmpAbs(big.NewInt(maxExponent)) > 0 {
				return true
			}
		}
	}
}

// Payloads that PostgreSQL would write out are refused, unless it keeps them as they are.
func TestCheckNumbers(t *testing.T) {
	big := []byte(`{"n":[1e131071]}`)
	for name, pub := range map[string]*channel.Publication{
		"data":         {Data: big},
		"checked data": {Data: big, Checked: true},
		"conn info":    {Data: []byte("1"), Info: &channel.ClientInfo{ConnInfo: big}},
		"chan info":    {Data: []byte("1"), Info: &channel.ClientInfo{ChanInfo: big}},
	} {
		if CheckPublication(pub, false) == nil {
			t.Errorf("%s is taken", name)
		}
		if err := CheckPublication(pub, true); err != nil {
			t.Errorf("%s as binary: %v", name, err)
		}
	}
}
