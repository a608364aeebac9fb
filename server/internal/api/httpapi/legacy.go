package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
	"github.com/gyrohq/gyro/server/internal/api"
)

// legacyMethods are the methods by their numbers. Names that api does not have are of Centrifugo PRO, and are answered
// with "not found".
var legacyMethods = [...]string{
	0: "publish", 1: "broadcast", 2: "unsubscribe", 3: "disconnect", 4: "presence",
	5: "presence_stats", 6: "history", 7: "history_remove", 8: "channels", 9: "info",
	10: "rpc", 11: "subscribe", 12: "refresh", 13: "",
	14: "connections", 15: "update_user_status", 16: "get_user_status", 17: "delete_user_status",
	18: "block_user", 19: "unblock_user", 20: "revoke_token", 21: "invalidate_user_tokens",
	22: "device_register", 23: "device_update", 24: "device_remove", 25: "device_list",
	26: "device_topic_list", 27: "device_topic_update", 28: "user_topic_list", 29: "user_topic_update",
	30: "send_push_notification", 31: "update_push_status", 32: "cancel_push",
	33: "map_publish", 34: "map_remove", 35: "map_read_state", 36: "map_read_stream",
	37: "map_stats", 38: "map_clear", 39: "shared_poll_publish",
}

var legacyNames = func() map[string]bool {
	names := make(map[string]bool, len(legacyMethods))
	for _, n := range legacyMethods {
		if n != "" {
			names[n] = true
		}
	}
	for _, m := range api.Methods() { // the methods of Gyro alone have no number
		names[m.String()] = m != api.MethodBatch
	}
	return names
}()

const (
	// maxLegacy is the largest number of commands in a request.
	maxLegacy = 1 << 16
	// maxReplies bounds the replies of a request, in bytes.
	maxReplies = 64 << 20
)

type legacyCommand struct {
	id uint32
	// name of the method; "" if the number is unknown.
	name string
	// params is empty without the member.
	params []byte
}

func (h *Handler) serveLegacyEndpoint(w http.ResponseWriter, r *http.Request, exec *api.Executor) {
	if h.closing() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	h.serveLegacy(w, r, exec)
}

// Legacy returns a handler of the legacy format without a check of keys, for the admin interface, which has its own.
func (h *Handler) Legacy() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if onlyMethod(w, r, http.MethodPost) {
			h.serveLegacyEndpoint(w, r, h.exec)
		}
	})
}

func (h *Handler) serveLegacy(w http.ResponseWriter, r *http.Request, exec *api.Executor) {
	body := getBuffer(r.ContentLength)
	defer putBuffer(body)
	if !h.readBody(w, r, body) {
		return
	}
	if tooMany(body.b) {
		text := "the body has more than " + strconv.Itoa(maxLegacy) + " commands"
		h.refuse(r, http.StatusRequestEntityTooLarge, "", text)
		http.Error(w, "Request Entity Too Large: "+text, http.StatusRequestEntityTooLarge)
		return
	}
	out := make([]byte, 0, firstRead)
	var encodeErr error
	rest := body.b
	// Each command is executed when it is read: commands before a malformed one take effect, although their replies are
	// lost.
	for n := 0; n == 0 || len(rest) > 0; n++ {
		var c legacyCommand
		text, following, err := jsonwire.Cut(rest)
		if err == nil {
			rest = following
			err = c.decode(text)
		}
		if err != nil {
			h.badRequest(w, r, "command "+strconv.Itoa(n+1)+" is not a JSON object with method and params; "+
				"a path for each method, such as "+h.path(api.MethodPublish)+", takes params alone: "+err.Error())
			return
		}
		if n > 0 {
			out = append(out, '\n')
		}
		if len(out) > maxReplies {
			h.refusals.Log.WarnContext(r.Context(), "legacy API request ended: its replies are too long", "addr", r.RemoteAddr, "executed", n, "limit", maxReplies)
			writeText(w, http.StatusRequestEntityTooLarge)
			return
		}
		if out, err = h.legacyReply(r, exec, out, c); err != nil && encodeErr == nil {
			encodeErr = err
		}
	}
	if encodeErr != nil {
		h.refusals.Log.ErrorContext(r.Context(), "legacy API answer cannot be encoded", "error", encodeErr)
		writeText(w, http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// tooMany counts the commands before any is executed.
func tooMany(body []byte) bool {
	if len(body) <= maxLegacy*len("{}") {
		return false
	}
	n := 0
	for err := error(nil); n <= maxLegacy && err == nil && len(body) > 0; n++ {
		_, body, err = jsonwire.Cut(body)
	}
	return n > maxLegacy
}

// decode reads a command into c, which is empty.
func (c *legacyCommand) decode(text []byte) error {
	c.name = legacyMethods[0]
	r := jsonwire.NewReader(text)
	unknown := false
	for ok := r.Object(); ok; ok = r.NextMember() {
		switch strings.ToLower(string(r.Key())) {
		case "id":
			r.Uint32(&c.id)
		case "method":
			c.name, unknown = "", false
			if r.IsString() {
				r.String(&c.name)
				c.name = strings.ToLower(c.name)
				unknown = !legacyNames[c.name]
				continue
			}
			var n int32
			if r.Int32(&n); n >= 0 && int(n) < len(legacyMethods) {
				c.name = legacyMethods[n]
			}
		case "params":
			r.Raw(&c.params)
		default:
			r.Skip()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if unknown {
		return fmt.Errorf("unknown method %.40q", c.name)
	}
	return nil
}

func (h *Handler) legacyReply(r *http.Request, exec *api.Executor, out []byte, c legacyCommand) ([]byte, error) {
	out = append(out, '{')
	if c.id != 0 {
		out = append(out, `"id":`...)
		out = strconv.AppendUint(out, uint64(c.id), 10)
		out = append(out, ',')
	}
	res, err := h.legacyExecute(r, exec, c)
	if err != nil {
		out = append(out, `"error":`...)
		return append(api.AppendError(out, api.AsError(err)), '}'), nil
	}
	if out, err = res.AppendJSON(append(out, `"result":`...)); err != nil {
		m, _ := api.MethodByName(c.name) // it was executed
		h.observed.Failed(m, api.StageEncode)
	}
	return append(out, '}'), err
}

func (h *Handler) legacyExecute(r *http.Request, exec *api.Executor, c legacyCommand) (api.Result, error) {
	m, ok := api.MethodByName(c.name)
	if !ok {
		return nil, api.ErrNotFound
	}
	req := m.NewRequest()
	// info ignores its params.
	if m != api.MethodInfo {
		if err := req.UnmarshalJSON(c.params); err != nil {
			h.failed(r, m, api.StageDecode)
			return nil, api.ErrBadRequest
		}
	}
	if h.tracer == nil {
		return h.observed.Execute(r.Context(), exec, m, req)
	}
	ctx, span := h.tracer.Begin(r.Context(), m, req, r.Header)
	defer span.Abort()
	res, err := h.observed.Execute(ctx, exec, m, req)
	span.End(http.StatusOK, res, err)
	return res, err
}
