package format

import "bytes"

// MessageKind is a kind of message on a client channel.
type MessageKind uint8

// Kinds of messages.
const (
	KindPublication MessageKind = iota
	KindJoin
	KindLeave
	KindClear // of a map
)

// Prefixes of messages. A bare Protobuf publication never begins with an underscore.
const (
	PrefixJoin  = "__j__"
	PrefixLeave = "__l__"
	PrefixClear = "__c__"

	prefixPosition = "__p1:"
	prefixDelta    = "__d1:"
	positionEnd    = "__"
)

// Message is a message on a client channel. Its slices are parts of the argument of ParseMessage.
type Message struct {
	Kind MessageKind
	// Data is the Protobuf of a publication or client info.
	Data   []byte
	Offset uint64
	Epoch  []byte
	// Delta allows deltas from Prev, the Protobuf of the publication before, or empty.
	Delta bool
	Prev  []byte
}

// ParseMessage reads a message.
func ParseMessage(message []byte) (m Message, err error) {
	switch {
	case len(message) == 0 || message[0] != '_':
		m.Data = message
		return m, nil
	case bytes.HasPrefix(message, []byte(prefixPosition)):
		return parsePosition(message[len(prefixPosition):])
	case bytes.HasPrefix(message, []byte(prefixDelta)):
		return parseDelta(message[len(prefixDelta):])
	case bytes.HasPrefix(message, []byte(PrefixJoin)):
		return Message{Kind: KindJoin, Data: message[len(PrefixJoin):]}, nil
	case bytes.HasPrefix(message, []byte(PrefixLeave)):
		return Message{Kind: KindLeave, Data: message[len(PrefixLeave):]}, nil
	case bytes.Equal(message, []byte(PrefixClear)):
		return Message{Kind: KindClear}, nil
	default:
		return m, ErrMalformed
	}
}

// parsePosition reads offset:epoch__publication.
func parsePosition(rest []byte) (m Message, err error) {
	if m.Offset, rest, err = number(rest); err != nil {
		return m, err
	}
	end := bytes.Index(rest, []byte(positionEnd))
	if end < 0 {
		return m, ErrMalformed
	}
	m.Epoch, m.Data = rest[:end:end], rest[end+len(positionEnd):]
	return m, nil
}

// parseDelta reads offset:epoch:length:prev:length:cur.
func parseDelta(rest []byte) (m Message, err error) {
	m.Delta = true
	if m.Offset, rest, err = number(rest); err != nil {
		return m, err
	}
	end := bytes.IndexByte(rest, ':')
	if end < 0 {
		return m, ErrMalformed
	}
	m.Epoch, rest = rest[:end:end], rest[end+1:]
	if m.Prev, rest, err = counted(rest); err != nil {
		return m, err
	}
	if len(rest) == 0 || rest[0] != ':' {
		return m, ErrMalformed
	}
	if m.Data, rest, err = counted(rest[1:]); err != nil {
		return m, err
	}
	if len(rest) > 0 {
		return m, ErrMalformed
	}
	// From a LIST, Centrifugo sends the previous publication with its envelope.
	if bytes.HasPrefix(m.Prev, []byte(prefixPosition)) {
		prev, err := parsePosition(m.Prev[len(prefixPosition):])
		if err != nil {
			return m, err
		}
		m.Prev = prev.Data
	}
	return m, nil
}

func counted(rest []byte) (value, after []byte, err error) {
	n, rest, err := number(rest)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, ErrMalformed
	}
	return rest[:n:n], rest[n:], nil
}

func number(rest []byte) (n uint64, after []byte, err error) {
	for i, c := range rest {
		if c == ':' && i > 0 {
			return n, rest[i+1:], nil
		}
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			break
		}
		n = n*10 + d
	}
	return 0, nil, ErrMalformed
}
