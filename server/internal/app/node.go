package app

import (
	"os"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/operators/expression"
)

func (a *App) nodeConfig(o Options) gyro.Config {
	cfg, c := a.cfg, &a.cfg.Client
	observer := a.meters.observer()
	observer.Refused = a.nameKey
	if a.tracer != nil && cfg.OpenTelemetry.Client {
		observer.Effect = a.tracer.Effect
	}
	return gyro.Config{
		Handlers:               a.handlers(),
		Observer:               observer,
		Broker:                 a.engines.Broker,
		Presence:               a.engines.Presence,
		Controller:             a.engines.Controller,
		Binary:                 true, // the namespaces decide about checks of data, and backends publish b64data
		EngineConcurrency:      cfg.Engine.Concurrency,
		InlineHandlers:         true,
		Logger:                 o.Logger,
		Name:                   nodeName(cfg),
		Version:                o.Version,
		PingInterval:           c.PingInterval,
		PongTimeout:            c.PongTimeout,
		StaleCloseDelay:        c.StaleCloseDelay,
		ExpiredCloseDelay:      c.ExpiredCloseDelay,
		ExpiredSubCloseDelay:   c.ExpiredSubCloseDelay,
		PresenceUpdateInterval: c.PresenceInterval,
		PositionCheckDelay:     c.PositionCheckDelay,
		PositionMaxTimeLag:     c.PositionMaxLag,
		ChannelLimit:           c.ChannelLimit,
		ChannelMaxLength:       cfg.Channel.MaxLength,
		QueueMaxSize:           c.QueueMaxSize,
		UserConnectionLimit:    c.UserConnectionLimit,
		HistoryLimit:           c.HistoryMaxLimit,
		RecoveryLimit:          c.RecoveryMaxLimit,
		Concurrency:            max(c.Concurrency, 1),
		PollConcurrency:        cfg.SharedPoll.ConcurrencyLimit,
		SendTime:               c.IncludeServerTime,
		FlightRecorder:         cfg.Flight.Bytes(),
		Expressions:            expression.Compile,
		GoroutineDriver:        cfg.WebSocket.GoroutineDriver,
		ConnectDisconnects:     connectDisconnects(c),
	}
}

// keys are the configuration keys by the names that the node uses in refusals.
var keys = map[string]string{
	"Config.ChannelLimit":        "client.channel_limit",
	"Config.ChannelMaxLength":    "channel.max_length",
	"Config.QueueMaxSize":        "client.queue_max_size",
	"Config.StaleCloseDelay":     "client.stale_close_delay",
	"Config.UserConnectionLimit": "client.user_connection_limit",

	"webtransport.Config.MessageSizeLimit":              "webtransport.message_size_limit",
	"websocket.Config.MessageSizeLimit":                 "websocket.message_size_limit",
	"websocket.Config.DecompressedMessageSizeLimit":     "websocket.decompressed_message_size_limit",
	"uni_websocket.Config.MessageSizeLimit":             "uni_websocket.message_size_limit",
	"uni_websocket.Config.DecompressedMessageSizeLimit": "uni_websocket.decompressed_message_size_limit",

	"SubscribeOptions.AllowTagsFilter": "allow_tags_filter",
	"ChannelOptions.Binary":            "publication_data_format",
	"SharedPoll.MaxKeys":               "shared_poll.max_keys_per_connection",
	"MapOptions.MaxEntries":            "map.client_max_entries",
	"MapOptions.KeyTTL":                "map.key_ttl",
	"MapOptions.StreamSize":            "map.mode",
}

func ofNamespace(name string) bool {
	of, _, _ := strings.Cut(name, ".")
	return of == "SubscribeOptions" || of == "ChannelOptions" || of == "SharedPoll" || of == "MapOptions"
}

// nameKey replaces the node's name in a refusal by the key of the configuration; by "" if there is none.
func (a *App) nameKey(f *refusal.Refusal) {
	switch of, field, _ := strings.Cut(f.Key, "."); of {
	case "Config", "Handlers", "SubscribeOptions", "ChannelOptions", "SharedPoll", "MapOptions", "webtransport", "websocket", "uni_websocket":
	case "httpstream":
		if strings.HasSuffix(field, ".MaxRequestBodySize") {
			f.Key = a.web.BodyLimit(f.Path)
		}
		return
	default:
		return
	}
	option := ofNamespace(f.Key)
	if f.Key = keys[f.Key]; f.Key != "" && option {
		f.Key = a.inForce.Load().Channels.OptionKey(f.Channel, f.Key)
	}
}

func nodeName(cfg *config.Config) string {
	if cfg.Node.Name != "" {
		return cfg.Node.Name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return host + "_" + strconv.Itoa(cfg.HTTPServer.Port)
}

// connectDisconnects returns the disconnects of one-way clients by the code of their connect error.
func connectDisconnects(c *config.Client) map[uint32]protocol.Disconnect {
	if !c.UniDisconnectOnConnect.Enabled {
		return nil
	}
	codes := make(map[uint32]protocol.Disconnect)
	for _, t := range c.UniDisconnectOnConnect.Transforms {
		if _, ok := codes[uint32(t.Code)]; !ok {
			codes[uint32(t.Code)] = protocol.Disconnect{Code: uint32(t.To.Code), Reason: t.To.Reason}
		}
	}
	return codes
}
