package commands

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

func TestParsePosition(t *testing.T) {
	for reply, want := range map[string]string{
		"0:1:abc": "{{{1 abc} } false}", "1:0:": "{{{0 } idempotency} false}", "2:7:a:b": "{{{7 a:b} version} false}",
		"3:1:abc": "{{{1 abc} } true}", "4:1:abc": "{{{1 abc} key_exists} false}", "5:0:a": "{{{0 a} key_not_found} false}",
		"6:1:abc": "{{{1 abc} position_mismatch} false}", "7:1:abc": "{{{1 abc} map_full} false}",
	} {
		if got, err := parsePosition(reply); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", reply, got, err, want)
		}
	}
	for _, reply := range []string{"", "0", "0:", "0:1", "0:1abc", "0::abc", "0:x:abc", "0:-1:abc", "01:2:a", "8:1:abc", "x:1:abc"} {
		if got, err := parsePosition(reply); err == nil {
			t.Errorf("%q: %v", reply, got)
		}
	}
}

// TestStrangeAnswers: what no script and no command gives is an error.
func TestStrangeAnswers(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	client, err := servers.Open(t.Context(), servers.Options{Name: "shard", Addresses: []string{server.Addr()},
		ConnectTimeout: time.Second, IOTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	readers := map[string]func(rueidis.RedisResult) error{
		"position": func(r rueidis.RedisResult) error { _, err := ReadPosition(r); return err },
		"entry":    func(r rueidis.RedisResult) error { _, _, err := ReadEntry(&r); return err },
		"stream":   func(r rueidis.RedisResult) error { _, _, err := ReadHistory(r, nil, false); return err },
		"list": func(r rueidis.RedisResult) error {
			_, _, err := ReadHistory(r, &broker.HistoryFilter{}, true)
			return err
		},
		"renewed":  func(r rueidis.RedisResult) error { _, err := ReadRenewed(&r); return err },
		"mark":     func(r rueidis.RedisResult) error { _, _, err := ReadMark(&r); return err },
		"presence": func(r rueidis.RedisResult) error { _, err := ReadPresence(r); return err },
		"fields": func(r rueidis.RedisResult) error {
			return ReadFields(r, func(string, []byte) error { return nil })
		},
	}
	good := map[string]string{ // what one reader takes others may not
		"position": `'0:1:abc'`, "entry": `{'abc', '1', ''}`, "stream": `{'0:1:abc', {{'1-0', {'d', ''}}}}`,
		"list": `{'0:1:abc', {'__p1:1:abc__'}}`, "presence": `{2, 1}`, "fields": `{'client', 'info'}`,
		"renewed": `{'abc', '1'}`, "mark": `{'1', 'abc'}`,
	}
	strange := []string{
		`false`, `7`, `'x'`, `{ok = 'fine'}`, `redis.error_reply('ERR no')`, `{{}}`, `{7}`, `{'0:1:abc'}`, `{'x', {}}`,
		`{'0:1:abc', 7}`, `{'0:1:abc', {7}}`, `{'0:1:abc', {{}}}`, `{'0:1:abc', {{'x-0', {'d', ''}}}}`,
		`{'0:1:abc', {{'1-0', {'d'}}}}`, `{'0:1:abc', {{'1-0', 7}}}`, `{'0:1:abc', {{'1-0', {'d', {}}}}}`,
		`{'0:1:abc', {'__broken'}}`, `{{}, 'x'}`, `{'abc', 'x', ''}`, `{1, 2, 3}`,
	}
	ask := func(lua string) rueidis.RedisResult {
		return client.Do(t.Context(), client.B().Arbitrary("EVAL", "return "+lua, "0").Build())
	}
	for name, read := range readers {
		if err := read(ask(good[name])); err != nil {
			t.Errorf("%s of %s: %v", name, good[name], err)
		}
		for _, lua := range strange {
			if name == "fields" && lua[0] == '{' {
				continue // any array of strings will do
			}
			if err := read(ask(lua)); err == nil {
				t.Errorf("%s of %s: no error", name, lua)
			}
		}
	}
	for _, lua := range []string{`{{}, 'info'}`, `{'client', {}}`, `{'client', 7}`} {
		if err := readers["fields"](ask(lua)); err == nil {
			t.Errorf("fields of %s: no error", lua)
		}
	}
}
