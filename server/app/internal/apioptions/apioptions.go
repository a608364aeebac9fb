// Package apioptions turns what a namespace says into options of the commands of the server API.
package apioptions

import (
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/namespace"
)

// Of returns the options of a channel.
func Of(ch namespace.Channel) api.ChannelOptions {
	return api.ChannelOptions{
		SubscriptionType:      ch.SubscriptionType,
		HistorySize:           ch.HistorySize,
		HistoryTTL:            ch.HistoryTTL,
		HistoryMetaTTL:        ch.HistoryMetaTTL,
		Presence:              ch.Presence,
		JoinLeave:             ch.JoinLeave,
		ForcePushJoinLeave:    ch.ForcePushJoinLeave,
		ForceRecovery:         ch.ForceRecovery,
		ForcePositioning:      ch.ForcePositioning,
		BatchMaxDelay:         ch.BatchMaxDelay,
		BatchMaxSize:          ch.BatchMaxSize,
		BatchFlushLatest:      ch.BatchFlushLatest,
		DeltaPublish:          ch.DeltaPublish,
		PublicationDataFormat: ch.PublicationDataFormat,
		SharedPollPublish:     ch.SharedPoll.PublishEnabled,
	}
}
