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

// Config of all sessions of a node, constant. Negative durations switch a feature off.
type Config struct {
	Version  string
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
	// ConnectDisconnects are for OneWay clients, by the code of the error.
	ConnectDisconnects map[uint32]protocol.Disconnect

	// Beat of pings and checks.
	Beat   beat.Beat
	Clocks *clocks.Clocks
	// Taps may be nil.
	Taps *tap.Table
	// Epochs records streams that begin anew; it may be nil.
	Epochs *flightrecorder.Epochs
	// Rounds of checks of positions.
	Rounds *hub.Rounds
}

// Handles says which handlers the application has.
type Handles struct {
	Subscribe, Publish, MapChange, Presence, PresenceStats, History, RPC, Message, Refresh, SubRefresh bool
	Connecting, Connected, Unsubscribed, Disconnected                                                  bool
}
