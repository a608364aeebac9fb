package queues

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
)

var allowed = []api.Method{
	api.MethodPublish, api.MethodBroadcast, api.MethodSubscribe, api.MethodUnsubscribe, api.MethodDisconnect,
	api.MethodHistoryRemove, api.MethodRefresh,
}

// decode returns an error that is or wraps errSkipped if there is nothing to complain of.
func (p *Processor) decode(m *Message) (api.Method, api.Request, error) {
	if m.Broken != nil {
		return 0, nil, m.Broken
	}
	if mode := p.cfg.Mode; mode != nil && mode.Enabled {
		return publication(mode, m)
	}
	name, payload := m.Method, m.Payload
	if name == "" {
		var err error
		if name, payload, err = envelope(m.Payload); err != nil {
			return 0, nil, err
		}
	}
	method, ok := api.MethodByName(name)
	if !ok || !slices.Contains(allowed, method) {
		return 0, nil, fmt.Errorf("%w: method %s is not supported in consumers", errSkipped, describe(name))
	}
	request := method.NewRequest()
	if err := request.UnmarshalJSON(payload); err != nil {
		if p.cfg.Commands != nil {
			p.cfg.Commands.Failed(method, api.StageDecode)
		}
		return 0, nil, fmt.Errorf("the request of method %s does not decode: %w", name, err)
	}
	return method, request, nil
}

// envelope accepts a member payload that is a string of JSON, as tools that capture changes of tables write it.
func envelope(data []byte) (method string, payload []byte, err error) {
	var e struct {
		Method  string          `json:"method"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return "", nil, fmt.Errorf("the envelope does not decode: %w", err)
	}
	payload = e.Payload
	if bytes.HasPrefix(payload, []byte(`"`)) {
		var text string
		if err := json.Unmarshal(payload, &text); err != nil {
			return "", nil, fmt.Errorf("the payload in the envelope does not decode: %w", err)
		}
		payload = []byte(text)
	}
	if len(payload) == 0 {
		payload = []byte("{}")
	}
	return e.Method, payload, nil
}

// publication takes the payload as the data of a publication. An empty name in d switches that attribute off.
func publication(d *config.PublicationDataMode, m *Message) (api.Method, api.Request, error) {
	names := m.attribute(d.Channels)
	if names == "" {
		return 0, nil, fmt.Errorf("%w: %s is missing or empty", errSkipped, describe(d.Channels))
	}
	options, err := publishOptions(d, m)
	if err != nil {
		return 0, nil, err
	}
	channels := strings.Split(names, ",")
	if len(channels) == 1 {
		return api.MethodPublish, &api.PublishRequest{Channel: names, Data: m.Payload, Options: options}, nil
	}
	return api.MethodBroadcast, &api.BroadcastRequest{Channels: channels, Data: m.Payload, Options: options}, nil
}

// publishOptions returns nil if the message has none.
func publishOptions(d *config.PublicationDataMode, m *Message) (*api.PublishOptions, error) {
	var o api.PublishOptions
	var err error
	o.IdempotencyKey, o.VersionEpoch = m.attribute(d.IdempotencyKey), m.attribute(d.VersionEpoch)
	if text := m.attribute(d.Delta); text != "" {
		if o.Delta, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("%s is not a boolean: %s", describe(d.Delta), describe(text))
		}
	}
	if text := m.attribute(d.Version); text != "" {
		if o.Version, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%s is not an unsigned number of 64 bits: %s", describe(d.Version), describe(text))
		}
	}
	for _, a := range m.Attributes {
		if name, ok := strings.CutPrefix(a.Key, d.TagsPrefix); ok && d.TagsPrefix != "" {
			if o.Tags == nil {
				o.Tags = make(map[string]string)
			}
			o.Tags[name] = a.Value
		}
	}
	if o.IdempotencyKey == "" && o.VersionEpoch == "" && !o.Delta && o.Version == 0 && o.Tags == nil {
		return nil, nil
	}
	return &o, nil
}
