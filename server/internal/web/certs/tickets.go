package certs

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/material"
)

const (
	minSecret  = 32 // bytes
	maxSecrets = 4
	// keptKeys is the number of older keys that are accepted.
	keptKeys = 2
)

// tickets derives the keys of session tickets from secrets and the time, so that nodes with the same secrets and clocks
// have the same keys.
type tickets struct {
	source
	scope    string // of the keys: a ticket of another listener is of no use
	rotation time.Duration
	secrets  []string // the first one is for new tickets
	made     int64    // the number of the newest key of the last call of keys
}

// newTickets loads the secrets of a TLS object. Errors name the key, and quote no secret.
func newTickets(section string, t config.ListenerTLS) (*tickets, error) {
	const key, fileKey = "session_ticket_secret", "session_ticket_secret_file"
	if t.TicketSecret != "" && t.TicketSecretFile != "" {
		return nil, errors.New(fileKey + ": excludes " + key)
	}
	k := &tickets{scope: section, rotation: t.TicketRotation}
	if k.rotation <= 0 {
		return nil, errors.New("session_ticket_rotation: must be positive")
	}
	k.source = source{keys: key, read: func() ([]byte, error) { return []byte(t.TicketSecret), nil }}
	if t.TicketSecretFile != "" {
		k.source = source{keys: fileKey, files: t.TicketSecretFile, read: func() ([]byte, error) { return material.ReadFile(t.TicketSecretFile) }}
	}
	k.apply = func(text []byte) error {
		secrets, err := parseSecrets(string(text))
		if err == nil {
			k.secrets = secrets
		}
		return err
	}
	if err := k.load(); err != nil {
		return nil, fmt.Errorf("%s: %w", k.source.keys, err)
	}
	return k, nil
}

func parseSecrets(text string) (secrets []string, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case len(line) < minSecret:
			return nil, fmt.Errorf("secret %d has %d bytes, which are fewer than %d", len(secrets)+1, len(line), minSecret)
		case len(secrets) == maxSecrets:
			return nil, fmt.Errorf("there are more than %d secrets", maxSecrets)
		default:
			secrets = append(secrets, line)
		}
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no secret")
	}
	return secrets, nil
}

// number returns the number of the key for new tickets: the periods since 1970.
func (k *tickets) number(now time.Time) int64 { return now.UnixNano() / int64(k.rotation) }

// due reports whether there is a newer key than at the last call of keys.
func (k *tickets) due(now time.Time) bool { return k.number(now) != k.made }

// keys returns the accepted keys, the key for new tickets first. The next key is accepted too: the clock of another node
// may be ahead.
func (k *tickets) keys(now time.Time) (keys [][32]byte) {
	k.made = k.number(now)
	for _, secret := range k.secrets {
		for back := range int64(keptKeys + 1) {
			keys = append(keys, k.derive(secret, k.made-back))
		}
		keys = append(keys, k.derive(secret, k.made+1))
	}
	return keys
}

func (k *tickets) derive(secret string, number int64) (key [32]byte) {
	info := fmt.Sprintf("gyro session tickets, %s, every %s, key %d", k.scope, k.rotation, number)
	derived, err := hkdf.Key(sha256.New, []byte(secret), nil, info, len(key))
	if err != nil {
		panic(err) // crypto/hkdf refuses nothing but longer keys
	}
	copy(key[:], derived)
	return key
}
