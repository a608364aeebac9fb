package conformance

import (
	"fmt"
	"strings"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/talk"
)

type need uint32

const (
	stream       need = 1 << iota // clients may subscribe
	publishes                     // clients may publish
	positions                     // subscriptions have a position
	recovers                      // and recover
	keeps                         // clients may read the history
	presence                      // clients may ask for presence
	joins                         // subscribers get joins and leaves
	deltas                        // patches in place of payloads
	filters                       // by tags
	numbers                       // channel compaction
	mapState                      // channels are maps
	mapPositions                  // which have a position
	writes                        // clients may change maps
	mapDeltas                     // and patches in place of values
	caches                        // recovery gives the latest publication alone
	polled                        // channels are of shared poll, and the API publishes values

	published   // something can publish: clients or the API
	api         // the HTTP API
	signs       // tokens can be signed
	signsSubs   // and subscription tokens
	webSocket   // the transport is WebSocket
	emulated    // the transport is a stream and requests
	eventStream // of server-sent events
	lineStream  // of lines or messages
	oneWay      // clients send nothing but the connect request
	overQUIC    // WebTransport
	overSockJS
	inJSON
	inProtobuf
	signsKeys // keys of shared poll can be signed
	framed    // messages come in frames, requests or events, which can be cut off
)

var texts = []string{
	"subscribing", "publishing by clients", "positions", "recovery", "reading the history", "presence", "joins and leaves", "deltas",
	"filters by tags", "numbers instead of names", "maps", "maps with positions", "changing maps by clients", "deltas of maps", "cache mode",
	"shared poll with publishing",
	"publishing (by clients, or --api-key)", "the HTTP API (--api-key)", "a secret that signs tokens (--token-hmac-secret)",
	"a secret that signs the tokens of subscriptions (--token-hmac-secret)", "WebSocket", "an HTTP stream", "SSE", "HTTP streaming",
	"a one-way transport", "WebTransport", "SockJS", "JSON", "Protobuf", "a secret that signs keys (--key-secret)", "messages in frames",
}

const ofChannels = published | (published - 1)

func (n need) String() string {
	var out []string
	for i, text := range texts {
		if n&(1<<i) != 0 {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

type grant struct {
	prefix string
	has    need
	signed bool
}

func (s *suite) features() need {
	var n need
	kind := s.server.Dialer.Kind
	for bit, there := range map[need]bool{
		api: s.API != nil, signs: s.Sign != nil, signsSubs: s.SignSubscription != nil, signsKeys: s.SignKeys != nil,
		webSocket: kind.Name == "websocket", emulated: kind.Emulated(), eventStream: kind.Name == "sse", lineStream: kind.Name == "http_stream",
		oneWay: kind.OneWay, overQUIC: kind.Name == talk.OfWebTransport, overSockJS: kind.Name == talk.OfSockJS, framed: kind.Name != talk.OfWebTransport,
		inJSON: s.Encoding == protocol.JSON, inProtobuf: s.Encoding == protocol.Protobuf,
	} {
		if there {
			n |= bit
		}
	}
	return n
}

// choose returns the first channels with the permissions that a check needs, or the missing ones.
func (s *suite) choose(n need) (grant, string) {
	if missing := n &^ ofChannels &^ s.features(); missing != 0 {
		return grant{}, "needs " + missing.String()
	}
	wanted := n & ofChannels
	if wanted == 0 {
		return grant{}, ""
	}
	for _, g := range s.kinds {
		if wanted&^g.has == 0 {
			return g, ""
		}
	}
	return grant{}, fmt.Sprintf("no channel of --channel grants: %v", wanted)
}
