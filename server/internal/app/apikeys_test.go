package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/grpctest"
	"github.com/gyrohq/gyro/server/internal/web"
)

// guarded are the ways into the server API whose callers are held to rights, by the section of their keys.
// Each publishes to a channel with a value of authorization. known tells that the server knew the caller; if
// not, answer is what it said.
var guarded = map[string]struct {
	access  func(*config.Config) (key *string, keys *[]config.APIKey, tokens *config.APIJWKS)
	publish func(s *testServer, authorization, ch string) (known bool, answer string)
}{
	"http_api": {
		func(cfg *config.Config) (key *string, keys *[]config.APIKey, tokens *config.APIJWKS) {
			return &cfg.HTTPAPI.Key, &cfg.HTTPAPI.Keys, &cfg.HTTPAPI.JWKS
		},
		func(s *testServer, authorization, ch string) (known bool, answer string) {
			s.t.Helper()
			res, err := http.DefaultClient.Do(s.newRequest(http.MethodPost, "/api/publish", `{"channel":"`+ch+`","data":1}`, "Authorization", authorization))
			if err != nil {
				s.t.Fatal(err)
			}
			defer res.Body.Close()
			answer = strings.TrimSpace(string(must(io.ReadAll(res.Body))))
			if res.StatusCode == http.StatusUnauthorized {
				return false, strings.TrimPrefix(answer, "Unauthorized: ")
			}
			return true, answer
		},
	},
	"grpc_api": {
		func(cfg *config.Config) (key *string, keys *[]config.APIKey, tokens *config.APIJWKS) {
			return &cfg.GRPCAPI.Key, &cfg.GRPCAPI.Keys, &cfg.GRPCAPI.JWKS
		},
		func(s *testServer, authorization, ch string) (known bool, answer string) {
			s.t.Helper()
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.t.Context(), "authorization", authorization), wait.Limit)
			defer cancel()
			conn := dialGRPC(s, web.GRPCAPI, nil)
			defer conn.Close()
			answer, err := grpctest.Call(ctx, conn, api.MethodPublish, `{"channel":"`+ch+`","data":1}`)
			switch st := status.Convert(err); st.Code() {
			case codes.OK:
				return true, answer
			case codes.Unauthenticated:
				return false, strings.TrimPrefix(st.Message(), "unauthenticated: ")
			}
			s.t.Fatal(err)
			return false, ""
		},
	},
}

const deniedReply = `{"error":{"code":103,"message":"permission denied"}}`

// A reload brings new keys and takes old ones away, the key that may do everything included.
func TestRotateAPIKeys(t *testing.T) {
	t.Parallel()
	const first, second = "the-first-secret-of-billing", "the-second-secret-of-billing"
	billing := func(name, key string) config.APIKey {
		return config.APIKey{Name: name, Key: key, Methods: []string{"publish"}, Channels: []string{"bill-*"}}
	}
	for section, way := range guarded {
		main, keys := apiKey, []config.APIKey{billing("billing", first)}
		edit := func(cfg *config.Config) {
			withGRPC(cfg)
			key, list, _ := way.access(cfg)
			*key, *list = main, keys
		}
		s := startServer(t, edit)
		s.secrets = append(s.secrets, first, second)
		want := func(key, ch string, known bool, answer string) {
			t.Helper()
			if gotKnown, got := way.publish(s, "apikey "+key, ch); gotKnown != known || known && got != answer {
				t.Errorf("%s: %s: %v %s, want %v %s", section, ch, gotKnown, got, known, answer)
			}
		}
		reload := func(failure string) {
			t.Helper()
			if err := s.app.Reload(testConfig(edit)); (err == nil) != (failure == "") || err != nil && !strings.Contains(err.Error(), failure) {
				t.Errorf("%s: error %v, want %q", section, err, failure)
			}
		}
		want(first, "bill-1", true, `{"result":{}}`)
		want(first, "news", true, deniedReply)
		want(second, "bill-1", false, "")
		want(apiKey, "news", true, `{"result":{}}`)
		keys = append(keys, billing("billing-new", second))
		reload("")
		want(first, "bill-1", true, `{"result":{}}`)
		want(second, "bill-1", true, `{"result":{}}`)
		keys = keys[1:]
		reload("")
		want(first, "bill-1", false, "")
		want(second, "bill-1", true, `{"result":{}}`)
		keys = []config.APIKey{{Name: "billing", Key: first, Methods: []string{"pub"}}}
		reload(section + `.keys[0](billing).methods: "pub" is not a method`)
		want(second, "bill-1", true, `{"result":{}}`)
		keys, main = nil, "another-key"
		reload("")
		want(apiKey, "news", false, "")
		want(main, "news", true, `{"result":{}}`)
		if logs := s.logged(); !strings.Contains(logs, `"key":"`+section+`.keys[0](billing).channels"`) || strings.Contains(logs, "some keys that changed") {
			t.Errorf("%s: %s", section, logs)
		}
	}
}

// Backends may authenticate by the tokens of an identity provider.
func TestAPIByToken(t *testing.T) {
	t.Parallel()
	p := newKeyServer(t)
	p.rotate("k")
	s := startServer(t, func(cfg *config.Config) {
		withGRPC(cfg)
		for _, way := range guarded {
			_, _, tokens := way.access(cfg)
			*tokens = config.APIJWKS{Enabled: true, Endpoint: p.URL, Audience: "gyro", Issuer: "idp", Scope: "realtime.write",
				Methods: []string{"publish"}, Channels: []string{"bill-*"}}
		}
	})
	for _, tt := range []struct {
		claims jwt.MapClaims
		ch     string
		known  bool
		want   string
	}{
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "x realtime.write"}, "bill-1", true, `{"result":{}}`},
		{jwt.MapClaims{"aud": []string{"x", "gyro"}, "iss": "idp", "scope": []string{"realtime.write"}}, "bill-1", true, `{"result":{}}`},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "realtime.write"}, "news", true, deniedReply},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "realtime.writer"}, "bill-1", false, "claim scope does not hold the configured scope"},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": 1}, "bill-1", false, "claim scope does not hold the configured scope"},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp"}, "bill-1", false, "claim scope does not hold the configured scope"},
		{jwt.MapClaims{"aud": "web", "iss": "idp", "scope": "realtime.write"}, "bill-1", false, "claim aud does not hold the configured audience"},
		{jwt.MapClaims{"aud": "gyro", "iss": "x", "scope": "realtime.write"}, "bill-1", false, "claim iss is not the configured issuer"},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "realtime.write", "exp": 1}, "bill-1", false, "claim exp is past: the client has to get a new token"},
	} {
		token := strings.Trim(strings.TrimPrefix(p.token("k", tt.claims), `"token":`), `"`)
		s.secrets = append(s.secrets, token)
		want := tt.want
		if !tt.known {
			want = "the request's token is refused: " + want
		}
		for section, way := range guarded {
			if known, got := way.publish(s, "Bearer "+token, tt.ch); known != tt.known || got != want {
				t.Errorf("%s: %v: %v %s, want %v %s", section, tt.claims, known, got, tt.known, want)
			}
		}
	}
	for section, way := range guarded {
		if known, got := way.publish(s, "apikey "+apiKey, "news"); !known || got != `{"result":{}}` {
			t.Errorf("%s: with the key: %v %s", section, known, got)
		}
		for _, want := range []string{`"key":"` + section + `.jwks.scope"`, `"key":"` + section + `.jwks.audience"`, `"key":"` + section + `.jwks.channels"`} {
			if !strings.Contains(s.logged(), want) {
				t.Errorf("no %s in the log", want)
			}
		}
	}
	if !strings.Contains(s.logged(), "bearer token has no right to the channel") {
		t.Error("the log does not tell why the channel is refused")
	}
}

// Tokens whose keys have to be fetched do not hold up the other calls of their connection.
func TestTokenOverGRPCWaitsAlone(t *testing.T) {
	t.Parallel()
	p := newKeyServer(t)
	p.rotate("k")
	asked, answer := make(chan struct{}), make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	hold := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ask()
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	p.answer.Store(&hold)
	s := startServer(t, func(cfg *config.Config) {
		withGRPC(cfg)
		cfg.GRPCAPI.JWKS = config.APIJWKS{Enabled: true, Endpoint: p.URL, Methods: []string{"*"}, Channels: []string{"*"}}
	})
	<-asked // by the server, when it starts
	conn := dialGRPC(s, web.GRPCAPI, nil)
	token := strings.Trim(strings.TrimPrefix(p.token("k", jwt.MapClaims{}), `"token":`), `"`)
	s.secrets = append(s.secrets, token)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	waiting, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), &grpc.StreamDesc{},
		"/"+api.ServiceName+"/Info", grpc.ForceCodecV2(grpctest.Codec{}))
	if err == nil {
		err = errors.Join(waiting.SendMsg([]byte{}), waiting.CloseSend())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := grpctest.Call(keyed(s), conn, api.MethodInfo, `{}`); err != nil {
		t.Error(err)
	}
	close(answer)
	if err := waiting.RecvMsg(new([]byte)); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "token is refused") {
		t.Error(err)
	}
}
