// Bot: rolls dice in the room of examples/react-chat, for everybody who writes "/roll 2d6". See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/client"
)

const pause = time.Second

// message of the room. Pages show one message of an ID, however often it is published.
type message struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func main() {
	server := flag.String("server", "ws://localhost:8000/connection/websocket", "address of Gyro")
	tokens := flag.String("tokens", "http://localhost:3000/token?user=bot", "address that gives tokens of the bot")
	room := flag.String("room", "chat:lobby", "channel in which it answers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	getToken := func(ctx context.Context) (string, error) { return fetch(ctx, *tokens) }
	if err := run(ctx, *server, *room, getToken); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// run answers in the room until ctx ends, or the server refuses the bot for good.
func run(ctx context.Context, server, room string, getToken func(context.Context) (string, error)) error {
	c, err := client.New(server, client.Options{Name: "bot", GetToken: getToken})
	if err != nil {
		return err
	}
	defer c.Close()
	sub, err := c.NewSubscription(room, nil)
	if err != nil {
		return err
	}
	chat := client.ChannelOf[message](sub)
	messages := chat.Messages(ctx)
	sub.Subscribe()
	if err := c.Connect(ctx); err != nil {
		return err
	}
	log.Printf("the bot is connected, and answers in %s", room)
	for m, err := range messages {
		var gap *client.GapError
		var other *client.PayloadError
		switch {
		case errors.As(err, &gap): // for example, Gyro has started anew and has no history
			log.Printf("the bot has missed something: %v", gap)
			continue
		case errors.As(err, &other): // the publication is no message of this chat
			continue
		case err != nil: // the server has refused the bot for good
			return err
		}
		if text, ok := answer(who(m), m.Value); ok {
			if err := say(ctx, chat, message{ID: "answer to " + m.Value.ID, Text: text}); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// A publication of the application has no name.
func who(m client.Message[message]) string {
	if m.Info == nil {
		return "somebody"
	}
	return m.Info.User
}

// say publishes an answer, again under the same ID if the connection is lost before the server has confirmed it, or the
// server cannot do it now.
func say(ctx context.Context, chat client.Channel[message], m message) error {
	for {
		err := chat.Publish(ctx, m)
		var refused *client.Error
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &refused):
			return err
		case refused.Temporary:
		case refused.Code >= 100:
			log.Printf("the server does not take %q: %v", m.Text, err)
			return nil
		default: // the client has ended
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	token, err := io.ReadAll(io.LimitReader(resp.Body, 10_000))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(token), err
}
