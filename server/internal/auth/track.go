package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// trackGrace is how long a track signature is accepted after its exp.
const trackGrace = 5 * time.Second

var (
	errTrackFormat  = errors.New("the track signature is not iat:exp:hex, in Unix seconds")
	errTrackInvalid = errors.New("the track signature was made with another secret, or for other keys, another channel or another user")
	errTrackRetired = errors.New("the track signature was made with the previous secret after shared_poll.hmac_previous_secret_key_valid_until")
	errTrackZero    = errors.New("a key, the user or the channel has a zero byte, which separates them in the signed text")
	errTrackExpired = errors.Join(ErrExpired, errors.New("the track signature has expired"))
)

// VerifyTrack verifies the signature with which a user tracks keys of a channel, in their order. It returns when the
// signature expires; the zero time: never. The error wraps ErrExpired if it has expired.
func VerifyTrack(cfg *config.SharedPoll, signature, user, channel string, keys []string, now time.Time) (expireAt time.Time, err error) {
	s, err := parseTrack(signature)
	if err != nil {
		return expireAt, err
	}
	zero := func(text string) bool { return strings.IndexByte(text, 0) >= 0 }
	switch {
	case zero(user) || zero(channel) || slices.ContainsFunc(keys, zero):
		return expireAt, errTrackZero
	case s.by(cfg.HMACSecretKey, user, channel, keys):
	case !s.by(cfg.HMACPreviousSecretKey, user, channel, keys):
		return expireAt, errTrackInvalid
	case cfg.HMACPreviousValidUntil > 0 && s.iat > cfg.HMACPreviousValidUntil:
		return expireAt, errTrackRetired
	}
	if s.exp == 0 {
		return expireAt, nil
	}
	if expireAt = time.Unix(s.exp, 0); expireAt.Add(trackGrace).Before(now) {
		return time.Time{}, errTrackExpired
	}
	return expireAt, nil
}

// SignTrack returns such a signature. exp is in Unix seconds; 0: for ever.
func SignTrack(secret, user, channel string, keys []string, iat, exp int64) string {
	s := track{iatText: strconv.FormatInt(iat, 10), expText: strconv.FormatInt(exp, 10)}
	return s.iatText + ":" + s.expText + ":" + hex.EncodeToString(s.sum(secret, user, channel, keys))
}

type track struct {
	iat, exp         int64
	iatText, expText string
	mac              []byte
}

func parseTrack(signature string) (s track, err error) {
	iat, rest, ok := strings.Cut(signature, ":")
	exp, mac, also := strings.Cut(rest, ":")
	if !ok || !also || len(mac) != 2*sha256.Size || mac != strings.ToLower(mac) {
		return s, errTrackFormat
	}
	s.iatText, s.expText = iat, exp
	var wrong [3]error
	s.iat, wrong[0] = seconds(iat)
	s.exp, wrong[1] = seconds(exp)
	s.mac, wrong[2] = hex.DecodeString(mac)
	if errors.Join(wrong[:]...) != nil {
		return s, errTrackFormat
	}
	return s, nil
}

const maxSeconds = 253402300799

func seconds(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > maxSeconds {
		return 0, errTrackFormat
	}
	return int64(n), nil
}

// by tells whether the signature was made with a secret.
func (s *track) by(secret, user, channel string, keys []string) bool {
	return secret != "" && hmac.Equal(s.mac, s.sum(secret, user, channel, keys))
}

func (s *track) sum(secret, user, channel string, keys []string) []byte {
	all := sha256.New()
	join(all, keys...)
	h := hmac.New(sha256.New, []byte(secret))
	join(h, s.iatText, s.expText, user, channel, hex.EncodeToString(all.Sum(nil)))
	return h.Sum(nil)
}

func join(h hash.Hash, texts ...string) {
	for i, t := range texts {
		if i > 0 {
			_, _ = h.Write([]byte{0}) // a hash does not fail
		}
		_, _ = io.WriteString(h, t)
	}
}
