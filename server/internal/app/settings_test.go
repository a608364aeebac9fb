package app

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// The two configurations of TestReloadIsOne, by the secrets of their tokens.
const first, second = "secret-of-the-first-one", "secret-of-the-second-one"

// turn edits the first or the second configuration. They have nothing in common by which a
// token, a flag, a namespace or its options would fit those of the other: the first lets
// clients in by rules, and keeps a history; the second by client.insecure, and keeps none.
func turn(secret string) func(*config.Config) {
	return func(cfg *config.Config) {
		own, rules := "second", false
		if secret == first {
			own, rules = "first", true
		}
		c := &cfg.Client
		c.Token.HMACSecretKey = secret
		c.AllowAnonymousConnect, c.Insecure = rules, !rules
		c.UserPersonalChannel.Enabled, c.UserPersonalChannel.Namespace = true, own
		addNamespace(cfg, own, nil)
		for _, name := range []string{"n1", "n2"} {
			addNamespace(cfg, name, func(o *options) {
				o.Presence = true
				if rules {
					open(o)
					o.ForceRecovery = true
				}
			})
		}
	}
}

// TestReloadIsOne: while two configurations take turns, each operation is decided by one of
// them: a token by the secret of the options that it brings, a right by the rules of the
// flags beside them, all channels of a request by the same namespaces.
func TestReloadIsOne(t *testing.T) {
	t.Parallel()
	s := startServer(t, turn(first))
	s.secrets = append(s.secrets, first, second)
	var working, reloading sync.WaitGroup
	done := make(chan struct{})
	for _, work := range []func(*testServer){connectInTurns, requestInTurns, subscribeInTurns, publishInTurns, callInTurns} {
		working.Go(func() { work(s) })
	}
	reloading.Go(func() {
		turns := []*config.Config{testConfig(turn(second)), testConfig(turn(first))}
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := s.app.Reload(turns[i%len(turns)]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	working.Wait()
	close(done)
	reloading.Wait()
}

// inTurns are how many times the operations of TestReloadIsOne are repeated.
const inTurns = 200

// connectInTurns: who is let in by the secret of a configuration gets the subscriptions of
// that configuration.
func connectInTurns(s *testServer) {
	connecting := s.app.handlers().Connecting
	tokens, want := map[string]string{}, map[string]map[string]bool{ // whether a channel recovers
		first:  {"n1:a": true, "first:#u": false},
		second: {"n1:a": false, "second:#u": false},
	}
	for secret := range want {
		tokens[secret] = s.sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "u", "channels": []string{"n1:a"}})
	}
	let := map[string]int{}
	// All turns may pass within one configuration, so they go on until both have been in force.
	end := time.Now().Add(wait.Limit)
	for n := 0; n < 10*inTurns || (let[first] == 0 || let[second] == 0) && time.Now().Before(end); n++ {
		for secret, token := range tokens {
			reply, err := connecting(s.t.Context(), gyro.ConnectEvent{Token: token})
			if errors.Is(err, protocol.DisconnectInvalidToken) {
				continue
			}
			let[secret]++
			got := map[string]bool{}
			for ch, o := range reply.Subscriptions {
				got[ch] = o.Recoverable
			}
			if err != nil || !maps.Equal(got, want[secret]) {
				s.t.Errorf("token by %s: %v %v", secret, got, err)
				return
			}
		}
	}
	if let[first] == 0 || let[second] == 0 {
		s.t.Errorf("let in: %v", let)
	}
}

// requestInTurns: both configurations let an anonymous client in with a channel that it
// asks for.
func requestInTurns(s *testServer) {
	connecting := s.app.handlers().Connecting
	asks := gyro.ConnectEvent{Subs: map[string]*protocol.SubscribeRequest{"n2:a": {}}}
	for range 10 * inTurns {
		reply, err := connecting(s.t.Context(), asks)
		if _, ok := reply.Subscriptions["n2:a"]; err != nil || reply.Credentials == nil || !ok {
			s.t.Errorf("%+v %v", reply, err)
			return
		}
	}
}

// subscribeInTurns is connectInTurns for subscription tokens.
func subscribeInTurns(s *testServer) {
	c := wstest.Pipe(s.t, s.app.Node())
	c.Connect("")
	for i := range inTurns {
		secret := []string{first, second}[i%2]
		token := s.sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"channel": "n1:b"})
		switch got, reply := c.Outcome(`"subscribe":{"channel":"n1:b","token":"` + token + `"}`); {
		case got == "error 103":
		case got != "ok" || reply.Subscribe.Recoverable != (secret == first):
			s.t.Errorf("token by %s: %s, %+v", secret, got, reply)
			return
		default:
			c.Do(`"unsubscribe":{"channel":"n1:b"}`)
		}
	}
}

// publishInTurns: both configurations allow it.
func publishInTurns(s *testServer) {
	c := wstest.Pipe(s.t, s.app.Node())
	c.Connect("")
	for range inTurns {
		for _, command := range []string{`"publish":{"channel":"n1:c","data":1}`, `"presence":{"channel":"n1:c"}`} {
			if got, _ := c.Outcome(command); got != "ok" {
				s.t.Errorf("%s: %s", command, got)
				return
			}
		}
	}
}

// callInTurns: either all commands of a request to the server API find a history or none.
func callInTurns(s *testServer) {
	const channels = 64
	var names, commands []string
	for i := range channels {
		name := fmt.Sprintf(`"n%d:%d"`, 1+i%2, i)
		names = append(names, name)
		commands = append(commands, `{"publish":{"channel":`+name+`,"data":1}},{"history":{"channel":`+name+`}}`)
	}
	for range inTurns {
		for method, body := range map[string]string{
			"broadcast": `{"data":1,"channels":[` + strings.Join(names, ",") + `]}`,
			"batch":     `{"commands":[` + strings.Join(commands, ",") + `]}`,
		} {
			status, answer := s.post("/api/"+method, body)
			if n := strings.Count(answer, `"offset"`); status != 200 || n%channels != 0 || n == channels && method == "batch" {
				s.t.Errorf("%s: %d: %d times an offset in %d channels: %s", method, status, n, channels, answer)
				return
			}
		}
	}
}
