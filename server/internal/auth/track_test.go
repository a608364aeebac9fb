package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Each check of a signature, in the order in which they are made.
func TestVerifyTrack(t *testing.T) {
	const now = 1_000_000
	keys := []string{"a", "b"}
	sign := func(secret string, iat, exp int64) string { return SignTrack(secret, "42", "prices:x", keys, iat, exp) }
	cfg := config.SharedPoll{HMACSecretKey: "new", HMACPreviousSecretKey: "old", HMACPreviousValidUntil: now - 100}
	for name, c := range map[string]struct {
		signature string
		keys      []string
		expireAt  int64
		err       error
	}{
		"for ever":                  {sign("new", now, 0), keys, 0, nil},
		"with an end":               {sign("new", now, now+60), keys, now + 60, nil},
		"over, in the grace period": {sign("new", now, now-5), keys, now - 5, nil},
		"over":                      {sign("new", now, now-6), keys, 0, ErrExpired},
		"previous secret":           {sign("old", now-100, 0), keys, 0, nil},
		"previous secret, too late": {sign("old", now-99, 0), keys, 0, errTrackRetired},
		"another secret":            {sign("other", now, 0), keys, 0, errTrackInvalid},
		"no secret":                 {sign("", now, 0), keys, 0, errTrackInvalid},
		"other keys":                {sign("new", now, 0), []string{"a", "c"}, 0, errTrackInvalid},
		"another order":             {sign("new", now, 0), []string{"b", "a"}, 0, errTrackInvalid},
		"fewer keys":                {sign("new", now, 0), []string{"a"}, 0, errTrackInvalid},
		"empty":                     {"", keys, 0, errTrackFormat},
		"upper case":                {strings.ToUpper(sign("new", now, 0)), keys, 0, errTrackFormat},
		"a sign":                    {"+" + sign("new", now, 0), keys, 0, errTrackFormat},
		"a part too many":           {sign("new", now, 0) + ":", keys, 0, errTrackFormat},
		"an end that is too far":    {sign("new", now, maxSeconds+1), keys, 0, errTrackFormat},
	} {
		at, err := VerifyTrack(&cfg, c.signature, "42", "prices:x", c.keys, time.Unix(now, 0))
		if !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: error %v, want %v", name, err, c.err)
		}
		if c.expireAt == 0 != at.IsZero() || !at.IsZero() && at.Unix() != c.expireAt {
			t.Errorf("%s: expires at %v, want %d", name, at, c.expireAt)
		}
	}
	for _, other := range [][2]string{{"43", "prices:x"}, {"42", "prices:y"}, {"", "prices:x"}} {
		if _, err := VerifyTrack(&cfg, sign("new", now, 0), other[0], other[1], keys, time.Unix(now, 0)); !errors.Is(err, errTrackInvalid) {
			t.Errorf("user %q, channel %q: %v", other[0], other[1], err)
		}
	}
	// Zero bytes separate the signed texts. With a zero byte in a key, the signature of one key would be valid for two keys.
	zero := SignTrack("new", "42", "prices:x", []string{"a\x00b"}, now, 0)
	for _, c := range []struct {
		user, channel string
		keys          []string
	}{{"42", "prices:x", []string{"a\x00b"}}, {"42\x00prices", "x", keys}, {"42", "prices\x00x", keys}} {
		if _, err := VerifyTrack(&cfg, SignTrack("new", c.user, c.channel, c.keys, now, 0), c.user, c.channel, c.keys, time.Unix(now, 0)); !errors.Is(err, errTrackZero) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if _, err := VerifyTrack(&cfg, zero, "42", "prices:x", []string{"a", "b"}, time.Unix(now, 0)); err != nil {
		t.Errorf("the signature of one key with a zero byte is the one of two keys, which backends have to refuse to make: %v", err)
	}
	none := config.SharedPoll{}
	if _, err := VerifyTrack(&none, sign("", now, 0), "42", "prices:x", keys, time.Unix(now, 0)); !errors.Is(err, errTrackInvalid) {
		t.Errorf("without a secret: %v", err)
	}
}

// A signature as a backend makes it in another language; the payload is that of the documentation.
func TestSignTrackVector(t *testing.T) {
	want := "1700000000:1700003600:" + trackOracle("secret", "1700000000", "1700003600", "42", "prices:x", "BTC", "ETH")
	if got := SignTrack("secret", "42", "prices:x", []string{"BTC", "ETH"}, 1700000000, 1700003600); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// trackOracle writes the payload in one piece.
func trackOracle(secret, iat, exp, user, channel string, keys ...string) string {
	digest := sha256.Sum256([]byte(strings.Join(keys, "\x00")))
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%x", iat, exp, user, channel, digest)
	return hex.EncodeToString(h.Sum(nil))
}

var trackPattern = regexp.MustCompile(`^([0-9]+):([0-9]+):([0-9a-f]{64})$`)

// Whatever a client sends, it is accepted if and only if it has the form, and the sum of what it says.
func FuzzVerifyTrack(f *testing.F) {
	cfg := config.SharedPoll{HMACSecretKey: "s"}
	f.Add("1:2:"+trackOracle("s", "1", "2", "u", "c", "k"), "u", "c", "k", int64(3))
	f.Add("01:0:"+trackOracle("s", "01", "0", "u", "c", ""), "u", "c", "", int64(3))
	f.Add("1:2:3:4", "", "", "a\x00b", int64(0))
	f.Add(":::", "u", "c", "k", int64(-1))
	f.Fuzz(func(t *testing.T, signature, user, channel, joined string, now int64) {
		if now < 0 || now > maxSeconds {
			return
		}
		keys := strings.Split(joined, ",")
		at, err := VerifyTrack(&cfg, signature, user, channel, keys, time.Unix(now, 0))
		m := trackPattern.FindStringSubmatch(signature)
		valid := m != nil && m[3] == trackOracle("s", m[1], m[2], user, channel, keys...)
		var exp int64
		if valid {
			iat, bad := strconv.ParseInt(m[1], 10, 64)
			var also error
			exp, also = strconv.ParseInt(m[2], 10, 64)
			valid = bad == nil && also == nil && iat <= maxSeconds && exp <= maxSeconds
		}
		zero := strings.Contains(user+channel+joined, "\x00")
		valid = valid && !zero
		late := valid && exp > 0 && exp+5 < now
		switch {
		case (err == nil) != (valid && !late):
			t.Fatalf("%q: error %v, valid %v, late %v", signature, err, valid, late)
		case errors.Is(err, ErrExpired) != late:
			t.Fatalf("%q: error %v, late %v", signature, err, late)
		case err == nil && (exp == 0) != at.IsZero(), err == nil && exp > 0 && at.Unix() != exp:
			t.Fatalf("%q: expires at %v", signature, at)
		}
		// What is signed here is accepted.
		if _, err := VerifyTrack(&cfg, SignTrack("s", user, channel, keys, now, 0), user, channel, keys, time.Unix(now, 0)); (err != nil) != zero {
			t.Fatal(err)
		}
	})
}
