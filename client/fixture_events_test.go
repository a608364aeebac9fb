package client

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

type object = map[string]any

func (r *runner) tell(e Event) {
	name, keys := describe(e)
	text, err := json.Marshal(keys)
	if err != nil {
		panic(err)
	}
	line := "event "
	r.mu.Lock()
	defer r.mu.Unlock()
	if channel, _ := keys["channel"].(string); r.subs[channel] != nil {
		line += channel + " "
	}
	r.told = append(r.told, line+name+" "+string(text))
}

func position(p StreamPosition) object { return object{"offset": p.Offset, "epoch": p.Epoch} }

func describe(e Event) (name string, keys object) {
	switch e := e.(type) {
	case ConnectingEvent:
		return "connecting", object{"code": e.Reason.Code, "reason": e.Reason.Text}
	case ConnectedEvent:
		return "connected", object{"client": e.Client, "data": raw(e.Data), "transport": e.Transport}
	case DisconnectedEvent:
		return "disconnected", object{"code": e.Reason.Code, "reason": e.Reason.Text}
	case ErrorEvent:
		return "error", object{"channel": e.Channel, "code": e.Code, "message": e.Message}
	case MessageEvent:
		return "message", object{"data": raw(e.Data)}
	case SubscribingEvent:
		return "subscribing", object{"channel": e.Channel, "code": e.Reason.Code, "reason": e.Reason.Text}
	case UnsubscribedEvent:
		return "unsubscribed", object{"channel": e.Channel, "code": e.Reason.Code, "reason": e.Reason.Text}
	case SubscribedEvent:
		return "subscribed", object{
			"channel": e.Channel, "wasRecovering": e.WasRecovering, "recovered": e.Recovered, "recoverable": e.Recoverable,
			"positioned": e.Positioned, "position": position(e.Position), "data": raw(e.Data),
		}
	case GapEvent:
		return "gap", object{"channel": e.Channel, "from": position(e.From), "to": position(e.To)}
	case PublicationEvent:
		return "publication", publication(e.Publication)
	case StateEvent:
		list := []any{}
		for _, p := range e.Entries {
			list = append(list, publication(p))
		}
		return "state", object{"channel": e.Channel, "entries": list}
	case JoinEvent:
		return "join", object{"channel": e.Channel, "info": info(&e.Info)}
	case LeaveEvent:
		return "leave", object{"channel": e.Channel, "info": info(&e.Info)}
	}
	return fmt.Sprintf("%T", e), nil
}

func publication(p Publication) object {
	return object{
		"channel": p.Channel, "data": raw(p.Data), "offset": p.Offset, "tags": p.Tags, "info": info(p.Info),
		"key": p.Key, "removed": p.Removed, "score": p.Score, "version": p.Version,
	}
}

func raw(data []byte) any {
	if len(data) == 0 {
		return nil
	}
	return json.RawMessage(data)
}

func info(i *ClientInfo) any {
	if i == nil {
		return nil
	}
	return object{"user": i.User, "client": i.Client, "connInfo": raw(i.ConnInfo), "chanInfo": raw(i.ChanInfo)}
}

func matches(got, want string, exact bool) bool {
	wantWords, wantJSON := apart(want)
	gotWords, gotJSON := apart(got)
	if wantWords != gotWords {
		return false
	}
	var a, b any
	if wantJSON == "" {
		return true
	}
	if json.Unmarshal([]byte(gotJSON), &a) != nil || json.Unmarshal([]byte(wantJSON), &b) != nil {
		return false
	}
	if exact {
		return reflect.DeepEqual(a, b)
	}
	return contains(a, b)
}

func apart(line string) (words, text string) {
	if at := strings.Index(line, "{"); at >= 0 {
		return strings.TrimSpace(line[:at]), line[at:]
	}
	return line, ""
}

func contains(got, want any) bool {
	switch want := want.(type) {
	case nil:
		return got == nil || reflect.ValueOf(got).IsZero() || isEmpty(got)
	case map[string]any:
		in, ok := got.(map[string]any)
		if !ok && len(want) > 0 {
			return false
		}
		for key, value := range want {
			if !contains(in[key], value) {
				return false
			}
		}
		return true
	case []any:
		in, ok := got.([]any)
		if !ok || len(in) != len(want) {
			return false
		}
		for i := range want {
			if !contains(in[i], want[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	return ok && len(m) == 0
}
