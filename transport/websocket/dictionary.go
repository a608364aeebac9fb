package websocket

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// MaxDictionary is the most bytes of a dictionary: the window of DEFLATE.
const MaxDictionary = 32 << 10

// Dictionary is a text that messages to some clients are compressed against. Clients learn it when they connect, so it
// must contain nothing that one of them may not see. It does not change, and any goroutine may use it.
type Dictionary struct {
	profile   string
	anonymous bool
	framer    *dictionaryFramer
	whole, id *protocol.Dictionary // for connect results: with the data, and without
}

// NewDictionary returns a dictionary for the connections of one encoding whose clients offer to use one and declare this
// profile; "": they declare none. A profile is not verified. Clients without a user get it only if anonymous is set.
// data has 1 to MaxDictionary bytes; the last ones are the cheapest to refer to.
func NewDictionary(e protocol.Encoding, profile string, anonymous bool, data []byte) (*Dictionary, error) {
	if len(data) == 0 || len(data) > MaxDictionary {
		return nil, fmt.Errorf("websocket: a dictionary has 1 to %d bytes, not %d", MaxDictionary, len(data))
	}
	data = append([]byte(nil), data...)
	sum := sha256.Sum256(data)
	d := &Dictionary{
		profile: profile, anonymous: anonymous, framer: &dictionaryFramer{e, rfc6455.NewDictionary(data)},
		id: &protocol.Dictionary{ID: base64.RawURLEncoding.EncodeToString(sum[:12])},
	}
	d.whole = &protocol.Dictionary{ID: d.id.ID}
	if deflated := rfc6455.Deflate(data); e == protocol.JSON {
		d.whole.DataB64 = base64.StdEncoding.EncodeToString(deflated)
	} else {
		d.whole.Data = deflated
	}
	return d, nil
}

// ID of the content, as clients name it.
func (d *Dictionary) ID() string { return d.id.ID }

// Framer implements transport.Dictionary.
func (d *Dictionary) Framer() transport.Framer { return d.framer }

// Offer implements transport.Dictionary.
func (d *Dictionary) Offer(req *protocol.ConnectRequest, user string) *protocol.Dictionary {
	switch {
	case req.Profile != d.profile || user == "" && !d.anonymous:
		return nil
	case req.Dict == d.id.ID:
		return d.id
	}
	return d.whole
}

type dictionaryFramer struct {
	encoding   protocol.Encoding
	dictionary *rfc6455.Dictionary
}

// The first byte of a message tells whether the rest is compressed.
const (
	markPlain    = 0
	markDeflated = 1
)

// leastDeflated is the size in bytes of the smallest messages that are compressed. Pings are smaller.
const leastDeflated = 32

func (f *dictionaryFramer) Encoding() protocol.Encoding { return f.encoding }

func (f *dictionaryFramer) Headroom() int { return rfc6455.MaxHeader + 1 }

func (f *dictionaryFramer) Costly() bool { return true }

func (f *dictionaryFramer) Frame(buf []byte) []byte {
	const room = rfc6455.MaxHeader + 1
	buf[room-1] = markPlain
	if len(buf)-room >= leastDeflated {
		if z, ok := f.dictionary.Compress(buf[room:]); ok {
			buf[room-1], buf = markDeflated, buf[:room+len(z)]
		}
	}
	return rfc6455.Frame(buf, rfc6455.OpBinary, nil)
}
