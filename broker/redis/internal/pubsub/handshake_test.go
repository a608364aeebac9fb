package pubsub

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"

// converse does a handshake with a server that answers in turn, and returns what it
// was sent.
func converse(ctx context.Context, login Login, answers ...string) (commands []string, err error) {
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := bufio.NewReader(far)
		for {
			args, err := readCommand(in)
			if err != nil {
				return
			}
			commands = append(commands, strings.Join(args, " "))
			if len(answers) > 0 {
				far.Write([]byte(answers[0]))
				answers = answers[1:]
			}
		}
	}()
	err = Handshake(ctx, near, login)
	near.Close()
	<-done
	return commands, err
}

func TestHandshake(t *testing.T) {
	secret := Login{User: "gyro", Password: "s3cret", ClientName: "node1"}
	two := secret
	two.RESP2 = true
	for name, c := range map[string]struct {
		login   Login
		answers []string
		want    []string
		err     string
	}{
		"RESP3":           {secret, []string{hello}, []string{"HELLO 3 AUTH gyro s3cret SETNAME node1"}, ""},
		"default user":    {Login{Password: "s3cret"}, []string{hello}, []string{"HELLO 3 AUTH default s3cret"}, ""},
		"nothing":         {Login{}, []string{hello}, []string{"HELLO 3"}, ""},
		"RESP2":           {two, []string{"+OK\r\n", "+OK\r\n", "+PONG\r\n"}, []string{"AUTH gyro s3cret", "CLIENT SETNAME node1", "PING"}, ""},
		"RESP2 alone":     {Login{Password: "s3cret", RESP2: true}, []string{"+OK\r\n", "+PONG\r\n"}, []string{"AUTH s3cret", "PING"}, ""},
		"old server":      {Login{Password: "s3cret"}, []string{"-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `s3cret`\r\n", "+OK\r\n", "+PONG\r\n"}, []string{"HELLO 3 AUTH default s3cret", "AUTH s3cret", "PING"}, ""},
		"no RESP3":        {Login{}, []string{"-NOPROTO unsupported protocol version\r\n", "+PONG\r\n"}, []string{"HELLO 3", "PING"}, ""},
		"wrong password":  {secret, []string{"-WRONGPASS invalid username-password pair or user is disabled.\r\n"}, nil, "HELLO: redis answered: WRONGPASS invalid"},
		"no password":     {Login{}, []string{"-NOAUTH HELLO must be called with the client already authenticated\r\n"}, nil, "NOAUTH"},
		"no password two": {Login{RESP2: true}, []string{"-NOAUTH Authentication required.\r\n"}, nil, "PING: redis answered: NOAUTH"},
		"said in return":  {secret, []string{"-ERR your password s3cret is too short\r\n"}, nil, "redis answered: ERR"},
		"all secret":      {secret, []string{"-s3cret\r\n"}, nil, "redis answered: an error"},
		"bad name":        {two, []string{"+OK\r\n", "-ERR Client names cannot contain spaces\r\n"}, nil, "CLIENT: redis answered: ERR Client names"},
		"garbage":         {secret, []string{"HTTP/1.1 400 Bad Request\r\n"}, nil, "unknown type"},
		"too much":        {Login{}, []string{hello + hello}, nil, "more answers than commands"},
		"no end":          {Login{}, []string{"+" + strings.Repeat("x", 100_000)}, nil, "line of more than"},
	} {
		t.Run(name, func(t *testing.T) {
			commands, err := converse(t.Context(), c.login, c.answers...)
			if c.want != nil && !slices.Equal(commands, c.want) {
				t.Errorf("commands %q, want %q", commands, c.want)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}

func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if _, err := converse(t.Context(), Login{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != handshakeTimeout {
			t.Error(err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin = time.Now()
		if _, err := converse(ctx, Login{}); !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second {
			t.Error(err, time.Since(begin))
		}
	})
}
