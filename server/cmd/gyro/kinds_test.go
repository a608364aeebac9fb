package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// kindServer runs a server with maps and shared polls, whose backend has the values of values; its configuration is in the
// returned folder.
func kindServer(t *testing.T, values map[string]string) (dir string, call func(method, body string)) {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Items []struct{ Key string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		var items []map[string]any
		for _, item := range asked.Items {
			if data, ok := values[item.Key]; ok {
				items = append(items, map[string]any{"key": item.Key, "data": json.RawMessage(data), "version": 1})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"result": map[string]any{"items": items}})
	}))
	t.Cleanup(backend.Close)
	dir, port := t.TempDir(), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"http_api":{"key":"secret-key"},
		"client":{"token":{"hmac_secret_key":"secret-of-tokens"}},"shared_poll":{"hmac_secret_key":"secret-of-keys"},
		"channel":{"proxy":{"shared_poll_refresh":{"endpoint":"`+backend.URL+`"}},"namespaces":[
			{"name":"board","subscription_type":"map","allowed_delta_types":["fossil"],"map":{"mode":"persistent","min_page_size":2,"default_page_size":2,"max_page_size":2}},
			{"name":"cursors","subscription_type":"map","map":{"mode":"ephemeral","key_ttl":"1h"}},
			{"name":"doc","map_users_presence_channel_prefix":"users:"},
			{"name":"users","subscription_type":"map_users","map":{"mode":"ephemeral","key_ttl":"1h"}},
			{"name":"chat","history_size":10,"history_ttl":"1h","allowed_delta_types":["fossil"],"force_recovery":true},
			{"name":"prices","subscription_type":"shared_poll","allowed_delta_types":["fossil"],"shared_poll":{"mode":"versioned","refresh_interval":"1h","publish_enabled":true}}
		]}}`)
	launch(t, dir, nil, "gyro is running")
	return dir, func(method, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+"/api/"+method, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", "secret-key")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || strings.Contains(string(text), `"error"`) {
			t.Fatalf("%s: %s %v", method, text, err)
		}
	}
}

// expect compares the next lines of a command.
func (f *following) expect(t *testing.T, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if got := stable(line(t, f.out)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestSubToMaps: the entries come first, page by page, then what changes, with deltas or without.
func TestSubToMaps(t *testing.T) {
	t.Parallel()
	dir, call := kindServer(t, nil)
	long := strings.Repeat("a long text that deltas leave out, ", 10)
	set := func(key, text string) {
		t.Helper()
		call("map_publish", fmt.Sprintf(`{"channel":"board:1","key":%q,"data":{"text":%q},"delta":true}`, key, text))
	}
	for i := range 5 {
		set(fmt.Sprint("k", i), "old")
	}
	set("k1", long)
	if got, want := succeed(t, dir, "sub", "-c", "config.json", "--type", "map", "--once", "board:1"),
		"k0\t{\"text\":\"old\"}\nk1\t{\"text\":\""+long+"\"}\nk2\t{\"text\":\"old\"}\nk3\t{\"text\":\"old\"}\nk4\t{\"text\":\"old\"}\n"; got != want {
		t.Errorf("got %s", got)
	}
	plain := follow(t, dir, "sub", "-c", "config.json", "--type", "map", "--json", "board:1")
	deltas := follow(t, dir, "sub", "-c", "config.json", "--type", "map", "--json", "--delta", "board:1")
	latest := follow(t, dir, "tail", "-c", "config.json", "--type", "map", "-n", "2", "board:1")
	for _, f := range []*following{plain, deltas} {
		f.expect(t, `{"type":"connected"}`,
			`{"type":"entry","channel":"board:1","data":{"text":"old"},"offset":1,"key":"k0"}`,
			`{"type":"entry","channel":"board:1","data":{"text":"`+long+`"},"offset":6,"key":"k1"}`,
			`{"type":"entry","channel":"board:1","data":{"text":"old"},"offset":3,"key":"k2"}`,
			`{"type":"entry","channel":"board:1","data":{"text":"old"},"offset":4,"key":"k3"}`,
			`{"type":"entry","channel":"board:1","data":{"text":"old"},"offset":5,"key":"k4"}`,
			`{"type":"subscribed","channel":"board:1","offset":6,EPOCH}`)
	}
	latest.expect(t, "k4\t{\"text\":\"old\"}", "k1\t{\"text\":\""+long+"\"}")
	line(t, latest.err) // it is subscribed
	set("k1", long+"and more")
	if got := stable(succeed(t, dir, "pub", "-c", "config.json", "--json", "--key", "k0", "--remove", "board:1")); got != `{"channel":"board:1","offset":8,EPOCH}`+"\n" {
		t.Error(got)
	}
	if got := succeed(t, dir, "pub", "-c", "config.json", "--key", "k0", "board:1", `{"text":"back"}`); got != "" {
		t.Error(got)
	}
	for _, f := range []*following{plain, deltas} {
		f.expect(t, `{"type":"publication","channel":"board:1","data":{"text":"`+long+`and more"},"offset":7,"key":"k1"}`,
			`{"type":"publication","channel":"board:1","offset":8,"key":"k0","removed":true}`,
			`{"type":"publication","channel":"board:1","data":{"text":"back"},"offset":9,"key":"k0"}`)
	}
	latest.expect(t, "k1\t{\"text\":\""+long+"and more\"}", "k0", "k0\t{\"text\":\"back\"}")

	call("map_publish", `{"channel":"cursors:1","key":"a\tb","data":1}`)
	if got := succeed(t, dir, "sub", "-c", "config.json", "--type", "map", "--once", "board:2", "cursors:1"); got != "cursors:1\t\"a\\tb\"\t1\n" {
		t.Errorf("got %q", got)
	}
	present := follow(t, dir, "sub", "-c", "config.json", "--user", "ann", "doc:1")
	line(t, present.err)
	if got := succeed(t, dir, "sub", "-c", "config.json", "--type", "users", "--count", "1", "users:doc:1"); got != "ann\tnull\n" {
		t.Errorf("got %q", got)
	}
}

// TestSubToPolls: the keys that are asked for come from the backend, and then what is published.
func TestSubToPolls(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long text that deltas leave out, ", 10)
	dir, call := kindServer(t, map[string]string{"BTC": `{"p":1,"t":"` + long + `"}`})
	for _, delta := range []string{"false", "true"} {
		channel := "prices:" + delta
		f := follow(t, dir, "sub", "-c", "config.json", "--user", "ann", "--type", "poll", "--key", "BTC", "--key", "ETH", "--json", "--count", "3", "--delta="+delta, channel)
		f.expect(t, `{"type":"connected"}`, `{"type":"subscribed","channel":"`+channel+`"}`,
			`{"type":"publication","channel":"`+channel+`","data":{"p":1,"t":"`+long+`"},"key":"BTC","version":1}`)
		call("shared_poll_publish", `{"channel":"`+channel+`","key":"BTC","version":2,"data":{"p":2,"t":"`+long+`"}}`)
		f.expect(t, `{"type":"publication","channel":"`+channel+`","data":{"p":2,"t":"`+long+`"},"key":"BTC","version":2}`)
		call("shared_poll_publish", `{"channel":"`+channel+`","key":"OTHER","version":2,"data":0}`)
		call("shared_poll_publish", `{"channel":"`+channel+`","key":"ETH","version":7,"data":5}`)
		f.expect(t, `{"type":"publication","channel":"`+channel+`","data":5,"key":"ETH","version":7}`)
		if err := f.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	env := []string{"GYROCLI_CONFIG=config.json", "GYROCLI_SIGNATURE=nonsense"}
	ends(t, command(t, dir, env, "sub", "--type", "poll", "--key", "BTC", "prices:x"), 1, `track keys of "prices:x": error 103: permission denied`)
}

// TestSubWithDeltas: what comes as differences is printed as a whole.
func TestSubWithDeltas(t *testing.T) {
	t.Parallel()
	dir, _ := kindServer(t, nil)
	f := follow(t, dir, "tail", "-c", "config.json", "--delta", "--count", "3", "chat:1")
	line(t, f.err)
	long := strings.Repeat("a long text that deltas leave out, ", 10)
	for i := range 3 {
		data := fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, long)
		succeed(t, dir, "pub", "-c", "config.json", "--delta", "chat:1", data)
		f.expect(t, data)
	}
	if err := f.cmd.Wait(); err != nil {
		t.Error(err)
	}
	for want, args := range map[string][]string{
		`type: "list" is none of stream, map`:         {"--type", "list"},
		"key: keys are tracked in channels of type":   {"--key", "k"},
		"key: keys are tracked in channels of type p": {"--type", "poll"},
		"once: only maps have a state":                {"--once"},
		"since: only streams begin after a position":  {"--type", "map", "--since", "1:x"},
	} {
		misuse(t, dir, want, append([]string{"sub", "-c", "config.json", "chat:1"}, args...)...)
	}
	misuse(t, dir, "via: only streams have a history", "tail", "-c", "config.json", "--via", "api", "--type", "map", "board:1")
	ends(t, command(t, dir, nil, "sub", "-c", "config.json", "--type", "map", "chat:1"), 1, `subscribe to "chat:1": error `)
}
