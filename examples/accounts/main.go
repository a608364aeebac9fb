// Accounts: a chat with logins and rooms, on as many nodes as you like, which share a Redis.
//
//	npm install centrifuge
//	export SESSION_KEY=$(openssl rand -hex 32)
//	echo 'correct horse' | go run . -hash   # for accounts.json
//	go run . -address localhost:3000 -redis localhost:6379
//	go run . -address localhost:3001 -redis localhost:6379
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker/redis"
)

func main() {
	address := flag.String("address", "localhost:3000", "address to listen on")
	server := flag.String("redis", "localhost:6379", "address of the Redis that all nodes share")
	file := flag.String("accounts", "accounts.json", "file with the accounts, the same for all nodes")
	sdk := flag.String("sdk", "node_modules/centrifuge/dist/centrifuge.js", "file of the SDK for JavaScript")
	hash := flag.Bool("hash", false, "read a password and print what the file of accounts has for it")
	flag.Parse()
	var err error
	if *hash {
		err = printHash()
	} else {
		err = run(*address, *server, *file, *sdk)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func printHash() error {
	password, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no line with a password: %w", err)
	}
	hashed, err := hashPassword(strings.TrimSuffix(password, "\n"))
	fmt.Println(hashed)
	return err
}

func run(address, server, file, sdk string) error {
	users, err := readAccounts(file)
	if err != nil {
		return err
	}
	keys, err := newSessions(os.Getenv("SESSION_KEY"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(sdk); err != nil {
		return fmt.Errorf("there is no SDK for the page: %w (npm install centrifuge)", err)
	}
	node, err := newNode(address, server, users)
	if err != nil {
		return err
	}
	a := &app{users: users, sessions: keys, node: node, sdk: sdk, checks: make(chan struct{}, passwordChecks)}
	return serve(&http.Server{Addr: address, Handler: a.routes(), ReadHeaderTimeout: 10 * time.Second}, node)
}

// newNode starts a node on the Redis that all nodes share.
func newNode(name, server string, users accounts) (*gyro.Node, error) {
	engine, err := redis.New(redis.Config{Shards: []redis.Shard{{Addresses: []string{server}}}, Prefix: "accounts"})
	if err != nil {
		return nil, err
	}
	config := chat{users}.config()
	config.Name, config.Engine = name, engine
	node, err := gyro.New(config)
	if err != nil {
		return nil, err
	}
	return node, node.Run()
}

// serve ends when the process is asked to. Clients then go to another node.
func serve(server *http.Server, node *gyro.Node) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return shutdown(ctx, server, node)
}

// shutdown ends server and node at once: the server waits for streams, which the node ends.
func shutdown(ctx context.Context, server *http.Server, node *gyro.Node) error {
	ended := make(chan error, 1)
	server.RegisterOnShutdown(func() { ended <- node.Shutdown(ctx) })
	return errors.Join(server.Shutdown(ctx), <-ended)
}
