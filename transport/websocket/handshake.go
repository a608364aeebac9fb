package websocket

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/extension"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/internal/refuse"
)

// acceptGUID: RFC 6455 section 1.3.
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// handshake is what a client and the server have agreed on.
type handshake struct {
	accept      [acceptSize]byte // Sec-WebSocket-Accept; not over HTTP/2
	subprotocol string
	extensions  string
	encoding    protocol.Encoding
	compress    bool
	nativePing  bool
	connect     *protocol.ConnectRequest // of one-way clients that sent it with the handshake
}

// negotiate checks a request of net/http (RFC 6455 section 4.2.1, RFC 8441 section 5), and chooses the properties of the
// connection.
func (h *Handler) negotiate(r *http.Request, q *front.Request) (hs handshake, refused *refuse.Refusal) {
	if r.ProtoMajor == 2 {
		refused = checkConnect(r)
	} else {
		refused = checkUpgrade(r)
	}
	if refused != nil {
		return hs, refused
	}
	return h.agree(q)
}

func checkUpgrade(r *http.Request) *refuse.Refusal {
	if r.Method != http.MethodGet {
		return &refuse.Refusal{Status: http.StatusMethodNotAllowed, Text: "method is not GET"}
	}
	if !r.ProtoAtLeast(1, 1) {
		return refuse.BadRequest("HTTP version is below 1.1")
	}
	if r.ContentLength != 0 { // the body would be read as frames
		return refuse.BadRequest("the request has a body")
	}
	return nil
}

// agree is negotiate for a GET of HTTP/1.1 without a body, or an extended CONNECT.
func (h *Handler) agree(q *front.Request) (hs handshake, refused *refuse.Refusal) {
	if q.Method == http.MethodGet {
		if refused = hs.confirm(q); refused != nil {
			return hs, refused
		}
	}
	switch {
	case q.Get("Sec-WebSocket-Version") != "13":
		return hs, refuse.BadRequest("Sec-WebSocket-Version is not 13")
	case !h.cfg.CheckOrigin(q):
		return hs, &refuse.Refusal{
			Status: http.StatusForbidden, Key: "websocket.Config.CheckOrigin",
			Text: "origin not allowed: websocket.Config.CheckOrigin refuses it, by default all but the request's own host",
		}
	}
	return hs, hs.choose(&h.cfg, q)
}

func (hs *handshake) confirm(q *front.Request) *refuse.Refusal {
	if !q.HasToken("Connection", "upgrade") {
		return refuse.BadRequest(`Connection holds no "upgrade": this path is for WebSocket clients, and proxies have to pass Connection and Upgrade on`)
	}
	if !q.HasToken("Upgrade", "websocket") {
		return refuse.BadRequest(`Upgrade holds no "websocket"`)
	}
	var ok bool
	if hs.accept, ok = acceptKey(strings.TrimSpace(q.Get("Sec-WebSocket-Key"))); !ok {
		return refuse.BadRequest("Sec-WebSocket-Key is not 16 bytes in Base64")
	}
	return nil
}

// checkConnect accepts extended CONNECT. net/http puts its protocol into a header field.
func checkConnect(r *http.Request) *refuse.Refusal {
	switch {
	case r.Method == http.MethodConnect && r.Header.Get(":protocol") == "websocket":
		return nil
	case r.Method == http.MethodConnect, r.Method == http.MethodGet:
		return refuse.BadRequest("HTTP/2 needs extended CONNECT for websocket")
	default:
		return &refuse.Refusal{Status: http.StatusMethodNotAllowed, Text: "method is not CONNECT"}
	}
}

const (
	keySize    = 24 // 16 bytes in Base64
	acceptSize = 28 // sha1.Size bytes in Base64
)

func acceptKey(key string) (accept [acceptSize]byte, ok bool) {
	if len(key) != keySize {
		return accept, false
	}
	var in [keySize + len(acceptGUID)]byte
	copy(in[:], key)
	copy(in[keySize:], acceptGUID)
	var raw [18]byte // Decode may write the padding, too
	if n, err := base64.StdEncoding.Decode(raw[:], in[:keySize]); err != nil || n != 16 {
		return accept, false
	}
	sum := sha1.Sum(in[:])
	base64.StdEncoding.Encode(accept[:], sum[:])
	return accept, true
}

func (hs *handshake) choose(cfg *Config, request *front.Request) *refuse.Refusal {
	offers, err := extension.Parse(request.Values("Sec-WebSocket-Extensions"))
	if err != nil {
		return refuse.BadRequest(err.Error())
	}
	if cfg.Compression {
		hs.extensions = extension.AcceptDeflate(offers)
		hs.compress = hs.extensions != ""
	}
	if cfg.OneWay != nil {
		return hs.chooseOneWay(request)
	}
	hs.subprotocol = chooseSubprotocol(request)
	if hs.subprotocol == subprotocolProtobuf {
		hs.encoding = protocol.Protobuf
	}
	if request.Query == "" {
		return nil
	}
	q, _ := url.ParseQuery(request.Query) // without the malformed parts
	if q.Get("format") == "protobuf" || q.Get("cf_protocol") == "protobuf" {
		hs.encoding = protocol.Protobuf
	}
	hs.nativePing = q.Get("cf_ws_frame_ping_pong") == "true"
	return nil
}

func (hs *handshake) chooseOneWay(request *front.Request) *refuse.Refusal {
	hs.nativePing = true
	if request.Query == "" {
		return nil
	}
	q, _ := url.ParseQuery(request.Query) // without the malformed parts
	text := q.Get("cf_connect")
	if text == "" {
		return nil
	}
	hs.connect = new(protocol.ConnectRequest)
	if codec.DecodeConnect(protocol.JSON, []byte(text), hs.connect) != nil {
		return &refuse.Refusal{
			Status: http.StatusBadRequest, Body: "invalid connect request",
			Text: "the query parameter cf_connect is no connect request in JSON",
		}
	}
	return nil
}

const (
	subprotocolJSON     = "centrifuge-json"
	subprotocolProtobuf = "centrifuge-protobuf"
)

// chooseSubprotocol returns the client's first offer that is known, or "".
func chooseSubprotocol(q *front.Request) string {
	for _, field := range q.Values("Sec-WebSocket-Protocol") {
		for offer := range strings.SplitSeq(field, ",") {
			switch offer = strings.Trim(offer, " \t"); offer {
			case subprotocolJSON, subprotocolProtobuf:
				return offer
			}
		}
	}
	return ""
}

func (hs *handshake) setHeader(h http.Header) {
	if hs.subprotocol != "" {
		h.Set("Sec-WebSocket-Protocol", hs.subprotocol)
	}
	if hs.extensions != "" {
		h.Set("Sec-WebSocket-Extensions", hs.extensions)
	}
}

// hijack takes the connection over and answers the handshake, with the fields of middleware. It also returns the bytes
// that came already. Nil: taking over or answering failed.
func (hs *handshake) hijack(w http.ResponseWriter, timeout time.Duration) (netio.Stream, []byte, *refuse.Refusal) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, notTaken(w, "Hijack", err)
	}
	header := w.Header()
	hs.setHeader(header)
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	early = append(bytes.Clone(early), netio.Early(nc)...)
	stream := netio.NewStream(nc)
	if err != nil || stream.Write(hs.answer(header), timeout) != nil {
		stream.Abort()
		return nil, nil, nil
	}
	stream.SetReadDeadline(time.Time{})
	return stream, early, nil
}

// notTaken says why a method of http.ResponseController failed: usually middleware hides the server's
// http.ResponseWriter.
func notTaken(w http.ResponseWriter, method string, err error) *refuse.Refusal {
	why := err.Error()
	if errors.Is(err, http.ErrNotSupported) {
		for wraps, ok := w.(unwrapper); ok; wraps, ok = w.(unwrapper) {
			w = wraps.Unwrap()
		}
		why = fmt.Sprintf("the http.ResponseWriter of a middleware, a %T, has neither %s nor Unwrap: "+
			"give it the method Unwrap() http.ResponseWriter, which returns the one that it wraps", w, method)
	}
	return &refuse.Refusal{Status: http.StatusInternalServerError, Text: "the connection cannot be taken over: " + why}
}

type unwrapper interface{ Unwrap() http.ResponseWriter }

func (hs *handshake) answer(header http.Header) []byte {
	var b bytes.Buffer
	b.Write(hs.begin(nil))
	_ = header.WriteSubset(&b, notMiddlewares)
	b.WriteString("\r\n")
	return b.Bytes()
}

func (hs *handshake) begin(b []byte) []byte {
	b = append(b, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	b = append(b, hs.accept[:]...)
	return append(b, "\r\n"...)
}

// maxAnswer is the most bytes of appendAnswer.
const maxAnswer = 512

// appendAnswer is answer without middleware, which sorts the fields.
func (hs *handshake) appendAnswer(b []byte) []byte {
	b = hs.begin(b)
	if hs.extensions != "" {
		b = append(append(append(b, "Sec-Websocket-Extensions: "...), hs.extensions...), "\r\n"...)
	}
	if hs.subprotocol != "" {
		b = append(append(append(b, "Sec-Websocket-Protocol: "...), hs.subprotocol...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

var notMiddlewares = map[string]bool{
	"Upgrade": true, "Connection": true, "Sec-Websocket-Accept": true,
	"Content-Length": true, "Transfer-Encoding": true,
}

// acceptStream answers an extended CONNECT. Nil: that failed.
func (hs *handshake) acceptStream(w http.ResponseWriter, r *http.Request) (netio.Stream, *refuse.Refusal) {
	s := &h2Stream{w: w, control: http.NewResponseController(w), body: r.Body}
	// The deadlines of http.Server are meant for requests.
	_ = s.control.SetReadDeadline(time.Time{})
	if err := s.control.SetWriteDeadline(time.Time{}); errors.Is(err, http.ErrNotSupported) {
		return nil, notTaken(w, "SetWriteDeadline", err)
	}
	hs.setHeader(w.Header())
	w.WriteHeader(http.StatusOK)
	if s.control.Flush() != nil {
		return nil, nil
	}
	return netio.NewStream(s), nil
}
