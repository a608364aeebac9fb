package session

import (
	"time"

	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/tap"
	"github.com/gyrohq/gyro/protocol"
)

// Config has what an application sets for all sessions of a node. They are constant. Negative durations
// switch a feature off.
type Config struct {
	// Version of the server, told to clients.
	Version string
	// NodeID and SendTime: contents of the connect result.
	NodeID   string
	SendTime bool

	PingInterval       time.Duration
	PongTimeout        time.Duration
	StaleDelay         time.Duration
	ExpiredDelay       time.Duration
	ExpiredSubDelay    time.Duration
	PresenceInterval   time.Duration
	PositionMaxTimeLag time.Duration
	ChannelLimit       int
	ChannelMaxLength   int
	QueueMaxSize       int
	RecoveryLimit      int // publications; 0 for no limit
	HistoryLimit       int // publications; 0 for no limit
	CommandLimit       int // commands in progress before reading stops
	PendingMaxSize     int // bytes of commands that wait for others
	Handles            Handles
	// ConnectDisconnects are what OneWay clients get for the errors with these codes.
	ConnectDisconnects map[uint32]protocol.Disconnect

	// Beat of the node: pings and checks are due at its moments.
	Beat beat.Beat
	// Clocks of the cluster's nodes.
	Clocks *clocks.Clocks
	// Taps watch the messages of users and channels; nil for none.
	Taps *tap.Table
	// Epochs records that streams have begun anew; nil: they are not recorded.
	Epochs *flightrecorder.Epochs
	// Rounds of the node's checks of positions.
	Rounds *hub.Rounds
}

// Handles says which handlers the application has.
type Handles struct {
	Subscribe, Publish, MapChange, Presence, PresenceStats, History, RPC, Message, Refresh, SubRefresh bool
	Connecting, Connected, Unsubscribed, Disconnected                                                  bool
}
