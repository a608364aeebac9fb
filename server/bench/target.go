package bench

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Target is the server under load, and what all scenarios have in common.
type Target struct {
	URL      string // of the WebSocket endpoint: ws or wss
	API      string // of the HTTP API, without trailing slash; for publishing over it
	APIKey   string
	Encoding protocol.Encoding
	Header   http.Header // of the handshake, beyond what it needs
	TLS      *tls.Config // of wss and https; nil for the defaults

	// Token returns the connection token of a client; nil connects without one.
	Token func(client int) (string, error)

	// Channel is the channel; where there are several, their names begin with it,
	// and "-0", "-1" … follow.
	Channel string
	// Size of a payload in bytes, from MinSize to MaxSize.
	Size int
	// Dialers is how many connections are set up at a time; at least 1.
	Dialers int
	// Drain is how long a run waits for deliveries after the last one, until it counts the
	// missing ones as lost.
	Drain time.Duration
	// PID is the server's process, for its CPU and memory; 0 for unknown. It must be
	// on this machine, which must run Linux.
	PID int
	// Progress, if not nil, is called five times a second with a line on the state of the run.
	Progress func(line string)
}

func (t *Target) token(client int) (string, error) {
	if t.Token == nil {
		return "", nil
	}
	token, err := t.Token(client)
	if err != nil {
		return "", fmt.Errorf("token of client %d: %w", client, err)
	}
	return token, nil
}

func (t *Target) validate(clients bool) error {
	if clients {
		if err := validURL("url", t.URL, "ws", "wss"); err != nil {
			return err
		}
	}
	if t.Size < MinSize || t.Size > MaxSize {
		return fmt.Errorf("size: %d is not from %d to %d", t.Size, MinSize, MaxSize)
	}
	if t.Channel == "" {
		return fmt.Errorf("channel: is required")
	}
	if t.Dialers < 1 {
		return fmt.Errorf("dialers: %d is less than 1", t.Dialers)
	}
	if t.Drain <= 0 {
		return fmt.Errorf("drain: %s is not positive", t.Drain)
	}
	return nil
}

func validURL(name, text string, schemes ...string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		return fmt.Errorf("%s: %q is no %s:// or %s:// address", name, text, schemes[0], schemes[1])
	}
	return nil
}

// bounds refuses a number outside of [low, high].
func bounds[T int | float64](name string, v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("%s: %v is not from %v to %v", name, v, low, high)
	}
	return nil
}
