package api

import (
	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

// AppendResult appends the JSON of a result. It fails if bytes that must be
// embedded as JSON are not JSON: payloads in a history, infos in a presence,
// answers of RPC handlers.
func AppendResult(dst []byte, r Result) ([]byte, error) {
	w := writers.Get().(*jsonx.Writer)
	w.Buf = dst
	r.encode(w)
	dst, err := w.Buf, w.Err
	*w = jsonx.Writer{}
	writers.Put(w)
	return dst, err
}

// AppendError appends the JSON of an error.
func AppendError(dst []byte, e *Error) []byte {
	w := jsonx.Writer{Buf: dst}
	encodeError(&w, e)
	return w.Buf
}

func encodeError(w *jsonx.Writer, e *Error) {
	w.Begin('{')
	w.UintMember("code", uint64(e.Code))
	w.StringMember("message", e.Message)
	w.End('}')
}

func (r *PublishResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.UintMember("offset", r.Offset)
	w.StringMember("epoch", r.Epoch)
	w.End('}')
}

func (r *BroadcastResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	if len(r.Responses) > 0 {
		w.Name("responses")
		w.Begin('[')
		for i := range r.Responses {
			w.Element()
			r.Responses[i].encode(w)
		}
		w.End(']')
	}
	w.End('}')
}

func (r *PublishResponse) encode(w *jsonx.Writer) {
	w.Begin('{')
	if r.Error != nil {
		w.Name("error")
		encodeError(w, r.Error)
	} else {
		w.Name("result")
		r.Result.encode(w)
	}
	w.End('}')
}

func (*EmptyResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.End('}')
}

func (r *PresenceResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.Name("presence")
	w.Begin('{')
	for id, info := range r.Presence {
		w.Key(id)
		encodeClientInfo(w, info)
	}
	w.End('}')
	w.End('}')
}

func encodeClientInfo(w *jsonx.Writer, info *gyro.ClientInfo) {
	w.Begin('{')
	w.Name("user")
	w.String(info.User)
	w.Name("client")
	w.String(info.Client)
	w.RawMember("conn_info", info.ConnInfo)
	w.RawMember("chan_info", info.ChanInfo)
	w.End('}')
}

func (r *PresenceStatsResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.Name("num_clients")
	w.Uint(uint64(r.NumClients))
	w.Name("num_users")
	w.Uint(uint64(r.NumUsers))
	w.End('}')
}

func (r *HistoryResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.Name("publications")
	w.Begin('[')
	for _, p := range r.Publications {
		w.Element()
		w.Begin('{')
		w.RawMember("data", p.Data)
		if p.Info != nil {
			w.Name("info")
			encodeClientInfo(w, p.Info)
		}
		w.UintMember("offset", p.Offset)
		w.MapMember("tags", p.Tags)
		w.End('}')
	}
	w.End(']')
	w.Name("epoch")
	w.String(r.Epoch)
	w.Name("offset")
	w.Uint(r.Offset)
	w.End('}')
}

func (r *ChannelsResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.Name("channels")
	w.Begin('{')
	for ch, n := range r.Channels {
		w.Key(ch)
		w.Begin('{')
		w.UintMember("num_clients", uint64(n))
		w.End('}')
	}
	w.End('}')
	w.End('}')
}

func (r *InfoResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.Name("nodes")
	w.Begin('[')
	for i := range r.Nodes {
		w.Element()
		encodeNode(w, &r.Nodes[i])
	}
	w.End(']')
	w.End('}')
}

func encodeNode(w *jsonx.Writer, n *gyro.NodeInfo) {
	w.Begin('{')
	w.Name("uid")
	w.String(n.UID)
	w.Name("name")
	w.String(n.Name)
	w.Name("version")
	w.String(n.Version)
	w.Name("num_clients")
	w.Int(int64(n.NumClients))
	w.Name("num_users")
	w.Int(int64(n.NumUsers))
	w.Name("num_channels")
	w.Int(int64(n.NumChannels))
	w.IntMember("uptime", n.Uptime)
	w.Name("num_subs")
	w.Int(int64(n.NumSubs))
	w.End('}')
}

func (r *RPCResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	w.RawMember("data", r.Data)
	w.End('}')
}

func (r *BatchResult) encode(w *jsonx.Writer) {
	w.Begin('{')
	if len(r.Replies) > 0 {
		w.Name("replies")
		w.Begin('[')
		for i := range r.Replies {
			w.Element()
			r.Replies[i].encode(w)
		}
		w.End(']')
	}
	w.End('}')
}

func (r *Reply) encode(w *jsonx.Writer) {
	w.Begin('{')
	if r.Error != nil {
		w.Name("error")
		encodeError(w, r.Error)
	} else {
		w.Name(r.Method.String())
		r.Result.encode(w)
	}
	w.End('}')
}
