package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gyrohq/gyro"
)

// chat has the rules of the rooms. The channel of a room is room:NAME.
type chat struct{ users accounts }

// config of a node. Rooms keep their last messages, for new and for returning users.
func (c chat) config() gyro.Config {
	return gyro.Config{
		Channel:  gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 100, HistoryTTL: 24 * time.Hour}),
		Handlers: gyro.Handlers{Subscribe: c.subscribe, Publish: publish, Presence: presence, History: history},
	}
}

func (c chat) subscribe(_ context.Context, client *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	room, ok := strings.CutPrefix(e.Channel, "room:")
	if !ok || !c.users.mayEnter(client.UserID(), room) {
		return gyro.SubscribeReply{}, gyro.ErrorPermissionDenied
	}
	return gyro.SubscribeReply{Options: gyro.SubscribeOptions{
		Presence: true, EmitJoinLeave: true, PushJoinLeave: true, Recoverable: true,
	}}, nil
}

// Errors of our own have codes from 400 on.
var (
	errMessage = gyro.Error{Code: 400, Message: "a message is an object with a text"}
	errLength  = gyro.Error{Code: 401, Message: "a text has 1 to 500 characters"}
)

// publish takes messages of users in the room.
func publish(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
	var message struct {
		Text string `json:"text"`
	}
	switch err := json.Unmarshal(e.Data, &message); {
	case !e.Subscribed:
		return gyro.PublishReply{}, gyro.ErrorPermissionDenied
	case err != nil:
		return gyro.PublishReply{}, errMessage
	}
	if n := utf8.RuneCountInString(message.Text); n < 1 || n > 500 {
		return gyro.PublishReply{}, errLength
	}
	data, err := json.Marshal(message) // and nothing else that the client sent
	return gyro.PublishReply{Data: data}, err
}

func presence(_ context.Context, _ *gyro.Client, e gyro.PresenceEvent) (gyro.PresenceReply, error) {
	return gyro.PresenceReply{}, inside(e.Subscribed)
}

func history(_ context.Context, _ *gyro.Client, e gyro.HistoryEvent) (gyro.HistoryReply, error) {
	return gyro.HistoryReply{}, inside(e.Subscribed)
}

func inside(subscribed bool) error {
	if !subscribed {
		return gyro.ErrorPermissionDenied
	}
	return nil
}
