package websocket

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/internal/extension"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/internal/upgrade"
)

// acceptGUID is appended to the client's key, RFC 6455 section 1.3.
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// handshake is what was agreed on with a client.
type handshake struct {
	accept      string // Sec-WebSocket-Accept; empty over HTTP/2
	subprotocol string
	extensions  string
	encoding    protocol.Encoding
	compress    bool
	nativePing  bool
}

// refusal is the answer to a handshake that does not succeed.
type refusal struct {
	status int
	text   string
}

func (f *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Sec-WebSocket-Version", "13")
	if f.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodGet)
	}
	http.Error(w, "websocket: "+f.text, f.status)
}

func badRequest(text string) *refusal { return &refusal{http.StatusBadRequest, text} }

// negotiate checks the request (RFC 6455 section 4.2.1, RFC 8441 section 5) and
// chooses what the connection will be.
func (h *Handler) negotiate(r *http.Request) (*handshake, *refusal) {
	hs := &handshake{}
	check := hs.checkUpgrade
	if r.ProtoMajor == 2 {
		check = hs.checkConnect
	}
	if refused := check(r); refused != nil {
		return nil, refused
	}
	if r.Header.Get("Sec-WebSocket-Version") != "13" {
		return nil, badRequest("Sec-WebSocket-Version is not 13")
	}
	if !h.cfg.CheckOrigin(r) {
		return nil, &refusal{http.StatusForbidden, "origin not allowed"}
	}
	offers, err := extension.Parse(r.Header.Values("Sec-WebSocket-Extensions"))
	if err != nil {
		return nil, badRequest(err.Error())
	}
	if h.cfg.Compression {
		hs.extensions = extension.AcceptDeflate(offers)
		hs.compress = hs.extensions != ""
	}
	hs.choose(r)
	return hs, nil
}

func (hs *handshake) checkUpgrade(r *http.Request) *refusal {
	if r.Method != http.MethodGet {
		return &refusal{http.StatusMethodNotAllowed, "method is not GET"}
	}
	if !r.ProtoAtLeast(1, 1) {
		return badRequest("HTTP version is below 1.1")
	}
	if !upgrade.HasToken(r.Header, "Connection", "upgrade") {
		return badRequest(`Connection holds no "upgrade"`)
	}
	if !upgrade.HasToken(r.Header, "Upgrade", "websocket") {
		return badRequest(`Upgrade holds no "websocket"`)
	}
	key := strings.TrimSpace(r.Header.Get("Sec-WebSocket-Key"))
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 16 {
		return badRequest("Sec-WebSocket-Key is not 16 bytes in Base64")
	}
	hs.accept = acceptKey(key)
	return nil
}

// checkConnect accepts extended CONNECT, which net/http shows with the protocol
// as a header field.
func (hs *handshake) checkConnect(r *http.Request) *refusal {
	switch {
	case r.Method == http.MethodConnect && r.Header.Get(":protocol") == "websocket":
		return nil
	case r.Method == http.MethodConnect, r.Method == http.MethodGet:
		return badRequest("HTTP/2 needs extended CONNECT for websocket")
	default:
		return &refusal{http.StatusMethodNotAllowed, "method is not CONNECT"}
	}
}

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + acceptGUID))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// choose picks subprotocol, encoding and pings, client-protocol.md section 2.2.
func (hs *handshake) choose(r *http.Request) {
	hs.subprotocol = chooseSubprotocol(r.Header)
	q := r.URL.Query()
	if q.Get("format") == "protobuf" || q.Get("cf_protocol") == "protobuf" ||
		hs.subprotocol == subprotocolProtobuf {
		hs.encoding = protocol.Protobuf
	}
	hs.nativePing = q.Get("cf_ws_frame_ping_pong") == "true"
}

const (
	subprotocolJSON     = "centrifuge-json"
	subprotocolProtobuf = "centrifuge-protobuf"
)

// chooseSubprotocol returns the client's first offer that is known, or "".
func chooseSubprotocol(h http.Header) string {
	for _, field := range h.Values("Sec-WebSocket-Protocol") {
		for offer := range strings.SplitSeq(field, ",") {
			switch offer = strings.Trim(offer, " \t"); offer {
			case subprotocolJSON, subprotocolProtobuf:
				return offer
			}
		}
	}
	return ""
}

// sameOrigin is the default of Config.CheckOrigin.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// setHeader puts the outcome into the fields of the answer.
func (hs *handshake) setHeader(h http.Header) {
	if hs.subprotocol != "" {
		h.Set("Sec-WebSocket-Protocol", hs.subprotocol)
	}
	if hs.extensions != "" {
		h.Set("Sec-WebSocket-Extensions", hs.extensions)
	}
}

// hijack takes the connection over and answers the handshake, together with the
// header fields that middleware has set. It returns the bytes that the client
// sent ahead; the stream is nil if the connection could not be had.
func (hs *handshake) hijack(w http.ResponseWriter, timeout time.Duration) (netio.Stream, []byte) {
	header := w.Header()
	hs.setHeader(header)
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "websocket: the connection cannot be taken over: "+err.Error(), http.StatusInternalServerError)
		return nil, nil
	}
	// What is buffered would be lost with the buffer.
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	early = bytes.Clone(early)
	stream := netio.NewStream(nc)
	if err != nil || stream.Write(hs.answer(header), timeout) != nil {
		stream.Abort()
		return nil, nil
	}
	stream.SetReadDeadline(time.Time{})
	return stream, early
}

// answer is the response to a handshake over HTTP/1.1, with the fields of header.
func (hs *handshake) answer(header http.Header) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
	b.WriteString(hs.accept)
	b.WriteString("\r\n")
	_ = header.WriteSubset(&b, notMiddlewares)
	b.WriteString("\r\n")
	return b.Bytes()
}

// notMiddlewares are the fields of the answer that are not for middleware to set.
var notMiddlewares = map[string]bool{
	"Upgrade": true, "Connection": true, "Sec-Websocket-Accept": true,
	"Content-Length": true, "Transfer-Encoding": true,
}

// acceptStream answers an extended CONNECT.
func (hs *handshake) acceptStream(w http.ResponseWriter, r *http.Request) netio.Stream {
	hs.setHeader(w.Header())
	s := &h2Stream{w: w, control: http.NewResponseController(w), body: r.Body}
	// The deadlines of http.Server are meant for requests.
	_ = s.control.SetReadDeadline(time.Time{})
	_ = s.control.SetWriteDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	if s.control.Flush() != nil {
		return nil
	}
	return netio.NewStream(s)
}
