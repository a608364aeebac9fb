package schema

import "testing"

type suggestConfig struct {
	Client struct {
		Origins []string `key:"allowed_origins"`
		Token   struct {
			Secret string `key:"hmac_secret_key"`
		} `key:"token"`
	} `key:"client"`
	Channel struct {
		Namespaces []struct {
			Name     string `key:"name"`
			Presence bool   `key:"presence"`
		} `key:"namespaces"`
	} `key:"channel"`
	API struct {
		Key string `key:"key"`
	} `key:"http_api"`
}

func TestSuggestKey(t *testing.T) {
	for unknown, want := range map[string]string{
		"client.alowed_origns":             "client.allowed_origins",
		"clinet":                           "client",
		"channel.namespaces.[3].prescence": "channel.namespaces[].presence",
		"token_hmac_secret_key":            "client.token.hmac_secret_key",
		"allowed_origins":                  "client.allowed_origins",
		"api_key":                          "http_api.key",
		"client.hmac_secret_key":           "client.token.hmac_secret_key",
		"presence":                         "channel.namespaces[].presence",
		"client.zzz":                       "",
		"ab":                               "",
		"":                                 "",
	} {
		if got := SuggestKey(new(suggestConfig), unknown); got != want {
			t.Errorf("%s: got %q, want %q", unknown, got, want)
		}
	}
}

func TestSuggestEnv(t *testing.T) {
	prefixes := []string{"A_", "B_"}
	env := map[string]string{
		"A_CLIENT_ALLOWED_ORIGIN": "x", "B_TOKEN_HMAC_SECRET_KEY": "x", "B_CHANNEL_NAMESPACES": "chat", "B_CHANNEL_NAMESPACES_CHAT_PRESNCE": "x", "A_ZZZ": "x",
	}
	report, err := Load(new(suggestConfig), Source{Prefixes: prefixes, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"A_CLIENT_ALLOWED_ORIGIN": "A_CLIENT_ALLOWED_ORIGINS", "B_TOKEN_HMAC_SECRET_KEY": "B_CLIENT_TOKEN_HMAC_SECRET_KEY",
		"B_CHANNEL_NAMESPACES_CHAT_PRESNCE": "B_CHANNEL_NAMESPACES_CHAT_PRESENCE", "A_ZZZ": "",
	}
	if len(report.Env) != len(want) {
		t.Errorf("unknown: %v", report.Env)
	}
	for _, name := range report.Env {
		if got := report.SuggestEnv(name, prefixes); got != want[name] {
			t.Errorf("%s: got %q, want %q", name, got, want[name])
		}
	}
}
