package observe

import (
	"encoding/json"
	"time"
)

// TapKind says whether a Tap watches a user or a channel.
type TapKind string

const (
	// TapUser watches all connections of a user, from the reply to connect on.
	TapUser TapKind = "user"
	// TapChannel watches the commands of clients on a channel and their replies, and each publication, join and leave
	// once for each node with subscribers.
	TapChannel TapKind = "channel"
)

// Tap names the user or channel for gyro.Inspector.Tap. The empty user stands for all anonymous clients. A node has at
// most 16 taps at a time; further ones are an error. It keeps up to 4,096 events and 4 MiB for each tap until they are
// fetched, drops more, and says how many. Events of several nodes are in the order of their clocks. A node that joins
// later watches as well. A tap ends 10 s after its last fetch.
type Tap struct {
	Kind   TapKind
	Entity string
}

const (
	// TapReceived is a client's command, TapSent a reply or push to one client, TapDelivered a publication, join or
	// leave to one, and TapPublished such a message to all subscribers of a node.
	TapReceived  = "received"
	TapSent      = "sent"
	TapDelivered = "delivered"
	TapPublished = "published"
	// TapDisconnected is the end of a connection, with Code and Reason.
	TapDisconnected = "disconnected"
	// TapDropped: Dropped events are missing here, because they came faster than they were taken.
	TapDropped = "dropped"
	// TapSilent: nodes do not answer, with Reason. Their events are missing.
	TapSilent = "silent"
)

type Tapped struct {
	Time  time.Time `json:"time"`
	Node  string    `json:"node,omitempty"` // its UID
	Event string    `json:"event"`
	// Type of the message, as in the label "frame_type" of metrics.
	Type    string `json:"type,omitempty"`
	Client  string `json:"client,omitempty"`
	User    string `json:"user,omitempty"`
	Channel string `json:"channel,omitempty"`
	// Message is the command or the reply in the JSON of the client protocol, without tokens, session IDs and values of
	// headers. If JSON cannot have it, Protobuf has its encoding in Protobuf. A message of more than 32 KiB has neither,
	// only its Size, in bytes.
	Message  json.RawMessage `json:"message,omitempty"`
	Protobuf []byte          `json:"protobuf,omitempty"`
	Size     int             `json:"size,omitempty"`
	Code     uint32          `json:"code,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Dropped  uint64          `json:"dropped,omitempty"`
}
