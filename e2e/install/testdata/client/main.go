// A program in a module of its own that uses the client: it publishes into a channel, and prints the publications that
// come back.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/outbox"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New(os.Args[1], client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	sub, err := c.NewSubscription("room", nil)
	if err != nil {
		log.Fatal(err)
	}
	messages := client.ChannelOf[string](sub).Messages(ctx)
	sub.Subscribe()
	box, err := outbox.New(c, outbox.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := box.Publish("room", []byte(`"hello"`), nil); err != nil {
		log.Fatal(err)
	}
	if err := c.Connect(ctx); err != nil {
		log.Fatal(err)
	}
	for m, err := range messages {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Value)
		return
	}
}
