package sockjs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

type envelope struct {
	contentType string
	prelude     string // before the first frame
	poll        bool   // the response ends with its first frame
	wrap        func(frame string) string
}

// Browsers show nothing of a stream before its first 2 KB.
var (
	polling   = envelope{contentType: "application/javascript; charset=UTF-8", poll: true, wrap: line}
	streaming = envelope{
		contentType: "application/javascript; charset=UTF-8", prelude: strings.Repeat("h", 2048) + "\n", wrap: line,
	}
	eventSource = envelope{contentType: "text/event-stream; charset=UTF-8", prelude: "\r\n", wrap: event}
)

func line(frame string) string { return frame + "\n" }

func event(frame string) string { return "data: " + strings.ReplaceAll(frame, "%", "%25") + "\r\n\r\n" }

// receive reads the body, to ignore it: net/http would wait for its end before it sends the answer, and this request has
// no deadline.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, id string, e *envelope) {
	if _, ok := h.body(w, r); !ok {
		return
	}
	s := h.join(w, r, id)
	if s == nil {
		return
	}
	w.Header().Set("Content-Type", e.contentType)
	out := response{w: w, control: http.NewResponseController(w), timeout: h.cfg.WriteTimeout}
	_ = out.control.SetReadDeadline(time.Time{}) // this request lasts longer than the server's limit for requests
	err := s.attach()
	if err != nil {
		d := protocol.Disconnect{Code: 2010, Reason: "Another connection still open"}
		if errors.Is(err, errUnknown) {
			d = protocol.Disconnect{Code: 3000, Reason: "Go away!"}
		}
		_ = out.write(e.prelude + e.wrap(closeFrame(d))) // the client may have gone
		return
	}
	if e.prelude != "" {
		if err := out.write(e.prelude); err != nil {
			s.end(lost(err))
			return
		}
	}
	s.deliver(r, &out, e)
}

func (s *session) deliver(r *http.Request, out *response, e *envelope) {
	for {
		frame, final, drained := s.next()
		switch {
		case frame != "":
			if err := out.write(e.wrap(frame)); err != nil {
				s.end(fmt.Errorf("transport: %w: %w", protocol.DisconnectWriteError, err))
				return
			}
			if final {
				s.end(nil)
				return
			}
			if e.poll || out.size >= s.handler.cfg.ResponseLimit {
				s.detach()
				return
			}
		case drained:
			s.writable()
		default:
			select {
			case <-s.wake:
			case <-s.done:
				out.extend() // net/http writes the end of the response
				return
			case <-r.Context().Done():
				s.end(lost(r.Context().Err()))
				return
			}
		}
	}
}

type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	size    int
}

// extend gives the next write its full time, which would count from the latest write otherwise.
func (o *response) extend() { _ = o.control.SetWriteDeadline(time.Now().Add(o.timeout)) }

func (o *response) write(text string) error {
	o.extend()
	n, err := io.WriteString(o.w, text)
	o.size += n
	if err == nil {
		err = o.control.Flush()
	}
	return err
}

func (h *Handler) send(w http.ResponseWriter, r *http.Request, id string) {
	h.mu.Lock()
	s := h.sessions[id]
	h.mu.Unlock()
	if s == nil || !s.sentBy(r) {
		http.NotFound(w, r)
		return
	}
	body, ok := h.body(w, r)
	if !ok {
		return
	}
	messages, err := decode(body)
	if err != nil {
		http.Error(w, "the body is not a JSON array of strings", http.StatusBadRequest)
		return
	}
	for _, m := range messages {
		if s.awaitTurn(r.Context()) != nil || !s.receive(m) {
			http.NotFound(w, r) // or the client has gone
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.WriteHeader(http.StatusNoContent)
}

// body reports false if the request was answered.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.cfg.MaxBodySize)))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		http.Error(w, fmt.Sprintf("the body has more than %d bytes", h.cfg.MaxBodySize), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	if err != nil {
		http.Error(w, "the body is not complete", http.StatusBadRequest)
		return nil, false
	}
	return body, true
}
