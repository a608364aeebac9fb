package validate

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// byName gives channels the options that their names say.
func byName(ch string) channel.Options {
	return map[string]channel.Options{
		"kept":     {HistorySize: 10, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour},
		"binary":   {Binary: true},
		"size":     {HistorySize: 10},
		"ttl":      {HistoryTTL: time.Minute},
		"negative": {HistorySize: -1},
		"meta":     {HistorySize: 10, HistoryTTL: time.Minute, HistoryMetaTTL: time.Second},
	}[ch]
}

// wantError checks the whole text of an error; an empty one is none.
func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

// Options that contradict each other are errors that name the channel and the fields.
func TestPublishOptions(t *testing.T) {
	type o = channel.PublishOptions
	without, with := &Rules{Tracked: func(string) bool { return false }}, &Rules{Channel: byName}
	const ns = `gyro: channel "a": PublishOptions: `
	for _, tt := range []struct {
		rules *Rules
		ch    string
		in    o
		want  string
	}{
		{without, "a", o{}, ""},
		{without, "a", o{HistorySize: 1, HistoryTTL: time.Second}, ""},
		{without, "a", o{HistorySize: 1, HistoryTTL: time.Second, HistoryMetaTTL: time.Second, Delta: true, Version: 1, IdempotencyKey: "k", IdempotencyTTL: 1}, ""},
		{without, "a", o{SkipHistory: true, Delta: true, Version: 1}, ""},
		{without, "a", o{HistorySize: 1}, ns + "HistorySize (1) and HistoryTTL (0s) must both be set, or neither"},
		{without, "a", o{HistoryTTL: time.Second}, ns + "HistorySize (0) and HistoryTTL (1s) must both be set, or neither"},
		{without, "a", o{HistorySize: -1, HistoryTTL: time.Second}, ns + "HistorySize (-1) must not be negative"},
		{without, "a", o{HistorySize: 1, HistoryTTL: -time.Second}, ns + "HistoryTTL (-1s) must not be negative"},
		{without, "a", o{HistoryMetaTTL: -1}, ns + "HistoryMetaTTL (-1ns) must not be negative"},
		{without, "a", o{HistorySize: 1, HistoryTTL: time.Minute, HistoryMetaTTL: time.Second}, ns + "HistoryMetaTTL (1s) must be at least HistoryTTL (1m0s)"},
		{without, "a", o{HistorySize: 1, HistoryTTL: time.Second, SkipHistory: true}, ns + "SkipHistory contradicts HistorySize (1) and HistoryTTL (1s)"},
		{without, "a", o{Delta: true}, ns + "Delta needs history: HistorySize and HistoryTTL are 0, and Config.Channel gives none"},
		{without, "a", o{Version: 3}, ns + "Version needs history: HistorySize and HistoryTTL are 0, and Config.Channel gives none"},
		{without, "a", o{IdempotencyTTL: -1}, ns + "IdempotencyTTL (-1ns) must not be negative"},
		{without, "a", o{IdempotencyTTL: 1}, ns + "IdempotencyTTL (1ns) needs IdempotencyKey"},
		{without, "a", o{Info: &channel.ClientInfo{ConnInfo: []byte("x")}},
			`gyro: channel "a": PublishOptions.Info.ConnInfo is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; ChannelOptions.Binary allows it`},
		{with, "binary", o{Info: &channel.ClientInfo{ConnInfo: []byte("x")}}, ""},
		{with, "kept", o{Delta: true, Version: 1}, ""},
		{with, "kept", o{SkipHistory: true}, ""},
		{with, "a", o{Delta: true}, ns + "Delta needs history: HistorySize and HistoryTTL are 0, and Config.Channel gives none"},
		{with, "size", o{}, `gyro: channel "size": Config.Channel: HistorySize (10) and HistoryTTL (0s) must both be set, or neither`},
		{with, "ttl", o{}, `gyro: channel "ttl": Config.Channel: HistorySize (0) and HistoryTTL (1m0s) must both be set, or neither`},
		{with, "negative", o{}, `gyro: channel "negative": Config.Channel: HistorySize (-1) must not be negative`},
		{with, "meta", o{}, `gyro: channel "meta": Config.Channel: HistoryMetaTTL (1s) must be at least HistoryTTL (1m0s)`},
	} {
		_, err := tt.rules.Publish(tt.ch, &tt.in)
		wantError(t, tt.ch, err, tt.want)
	}
}

// A publication without history options of its own gets those of the channel.
func TestPublishCompletes(t *testing.T) {
	r := &Rules{Channel: byName}
	for _, tt := range []struct {
		ch       string
		in, want channel.PublishOptions
		json     bool
	}{
		{"kept", channel.PublishOptions{Delta: true}, channel.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour, Delta: true}, true},
		{"kept", channel.PublishOptions{HistorySize: 1, HistoryTTL: 1, HistoryMetaTTL: 2}, channel.PublishOptions{HistorySize: 1, HistoryTTL: 1, HistoryMetaTTL: 2}, true},
		{"kept", channel.PublishOptions{SkipHistory: true}, channel.PublishOptions{SkipHistory: true, HistoryMetaTTL: time.Hour}, true},
		{"binary", channel.PublishOptions{}, channel.PublishOptions{}, false},
	} {
		json, err := r.Publish(tt.ch, &tt.in)
		if err != nil || tt.in.HistorySize != tt.want.HistorySize || tt.in.HistoryTTL != tt.want.HistoryTTL ||
			tt.in.HistoryMetaTTL != tt.want.HistoryMetaTTL || json != tt.json {
			t.Errorf("%s: got %+v, %v, %v; want %+v", tt.ch, tt.in, json, err, tt.want)
		}
	}
	if r.MetaTTL("kept") != time.Hour || r.MetaTTL("a") != 0 || new(Rules).MetaTTL("kept") != 0 {
		t.Error("HistoryMetaTTL is not the channel's")
	}
}

func TestSubscribeOptions(t *testing.T) {
	type o = channel.SubscribeOptions
	without, with := new(Rules), &Rules{Channel: byName}
	const (
		ns   = `gyro: channel "a": SubscribeOptions: `
		none = ` needs history, and Config.Channel gives the channel none: its HistorySize and HistoryTTL are 0`
		bad  = ` is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; ChannelOptions.Binary allows it`
	)
	x := []byte("x")
	for _, tt := range []struct {
		rules *Rules
		ch    string
		in    o
		want  string
	}{
		{without, "a", o{Recoverable: true, RecoverSince: new(channel.StreamPosition), RecoveryMode: channel.RecoverCache, AutoRecover: true}, ""},
		{without, "a", o{Positioned: true, Data: []byte("1"), ChanInfo: []byte(`"x"`)}, ""},
		{without, "a", o{AutoRecover: true, RecoveryMode: channel.RecoverCache}, ns + "AutoRecover needs Recoverable"},
		{without, "a", o{AutoRecover: true, Recoverable: true}, ns + "AutoRecover needs the RecoveryMode RecoverCache"},
		{without, "a", o{BatchFlushLatest: true, BatchMaxSize: 3, PublishDebounce: time.Hour}, ""},
		{without, "a", o{BatchFlushLatest: true, BatchMaxDelay: 1, Recoverable: true}, ""}, // gets all
		{without, "a", o{BatchFlushLatest: true}, ns + "BatchFlushLatest needs BatchMaxDelay or BatchMaxSize"},
		{without, "a", o{PublishDebounce: -1}, ns + "PublishDebounce (-1ns) must not be negative, nor more than 1h0m0s"},
		{without, "a", o{PublishDebounce: 61 * time.Minute}, ns + "PublishDebounce (1h1m0s) must not be negative, nor more than 1h0m0s"},
		{without, "a", o{RecoverSince: new(channel.StreamPosition), Positioned: true}, ns + "RecoverSince needs Recoverable"},
		{without, "a", o{HistoryMetaTTL: -1}, ns + "HistoryMetaTTL (-1ns) must not be negative"},
		{without, "a", o{Data: x}, `gyro: channel "a": SubscribeOptions.Data` + bad},
		{without, "a", o{ChanInfo: x}, `gyro: channel "a": SubscribeOptions.ChanInfo` + bad},
		{without, "a", o{Publications: []*channel.Publication{{Data: []byte("1")}, {Data: x}}}, `gyro: channel "a": SubscribeOptions.Publications` + bad},
		{&Rules{Binary: true}, "a", o{Data: x, ChanInfo: x}, ""},
		{with, "binary", o{Data: x, ChanInfo: x, Publications: []*channel.Publication{{Data: x}}}, ""},
		{with, "kept", o{Recoverable: true, Positioned: true}, ""},
		{with, "a", o{Recoverable: true}, ns + "Recoverable" + none},
		{with, "a", o{Positioned: true}, ns + "Positioned" + none},
		{with, "size", o{}, `gyro: channel "size": Config.Channel: HistorySize (10) and HistoryTTL (0s) must both be set, or neither`},
	} {
		wantError(t, tt.ch, tt.rules.Subscribe(tt.ch, &tt.in), tt.want)
	}
}

func TestPayload(t *testing.T) {
	const tail = ", so clients with JSON connections could not read it; ChannelOptions.Binary allows it"
	for data, want := range map[string]struct {
		checked bool
		err     string
	}{
		"":                       {},
		`{"a":1}`:                {checked: true},
		"{\n\"a\":1}":            {}, // has to lose its line break for each frame
		`"` + "é" + `"`:          {checked: true},
		"hello":                  {err: "JSON: offset 0: unexpected character"},
		`{"a":`:                  {err: "JSON: offset 5: unexpected end"},
		`{} {}`:                  {err: jsonwire.ErrTrailing.Error()},
		"\"\xff\"":               {err: "JSON: offset 1: invalid UTF-8"},
		strings.Repeat("[", 600): {err: "JSON: offset 513: nested more than 512 deep"},
	} {
		checked, err := Payload("a", []byte(data))
		if want.err != "" {
			want.err = `gyro: channel "a": the payload is not JSON (` + want.err + ")" + tail
		}
		wantError(t, data, err, want.err)
		if checked != want.checked || err != nil && !errors.Is(err, jsonwire.ErrNotJSON) {
			t.Errorf("%q: %v, %v", data, checked, err)
		}
	}
}

func TestValues(t *testing.T) {
	r := &Rules{Channel: byName}
	x := []byte("x")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{r.Value("Credentials.Info", x), "gyro: Credentials.Info is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; Config.Binary allows it"},
		{r.Value("Credentials.Info", nil), ""},
		{(&Rules{Binary: true}).Value("Credentials.Info", x), ""},
		{r.ValueIn("a", "SubRefreshReply.Info", x), `gyro: channel "a": SubRefreshReply.Info is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; ChannelOptions.Binary allows it`},
		{r.ValueIn("a", "SubRefreshReply.Info", nil), ""},
		{r.ValueIn("binary", "SubRefreshReply.Info", x), ""},
		{r.History("binary", "h", []*channel.Publication{{Data: x}}), ""},
		{r.History("a", "HistoryReply.History", []*channel.Publication{{Info: &channel.ClientInfo{ChanInfo: x}}}),
			`gyro: channel "a": HistoryReply.History.ChanInfo is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; ChannelOptions.Binary allows it`},
		{r.Presence("binary", "p", map[string]*channel.ClientInfo{"c": {ConnInfo: x}}), ""},
		{r.Presence("a", "PresenceReply.Clients", map[string]*channel.ClientInfo{"c": {ConnInfo: x}, "d": {}}),
			`gyro: channel "a": PresenceReply.Clients.ConnInfo is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; ChannelOptions.Binary allows it`},
	} {
		wantError(t, tt.want, tt.err, tt.want)
	}
}

// A publication without history in a channel with subscribers that keep a position is warned
// of once per channel and minute, unless it says so or there is a resolver.
func TestLostPublicationsAreWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &Rules{Log: slog.New(slog.NewTextHandler(&log, nil)), Tracked: func(ch string) bool { return ch != "plain" }}
		publish := func(r *Rules, ch string, o channel.PublishOptions) {
			if _, err := r.Publish(ch, &o); err != nil {
				t.Error(err)
			}
		}
		lines := func(want int) {
			t.Helper()
			if got := strings.Count(log.String(), "\n"); got != want {
				t.Errorf("%d lines, want %d:\n%s", got, want, log.String())
			}
		}
		publish(r, "plain", channel.PublishOptions{})
		publish(r, "a", channel.PublishOptions{SkipHistory: true})
		publish(r, "a", channel.PublishOptions{HistorySize: 1, HistoryTTL: 1})
		publish(&Rules{Log: r.Log, Tracked: r.Tracked, Channel: byName}, "a", channel.PublishOptions{})
		lines(0)
		for range 3 {
			publish(r, "a", channel.PublishOptions{})
			publish(r, "b", channel.PublishOptions{})
		}
		lines(2)
		time.Sleep(time.Minute)
		publish(r, "a", channel.PublishOptions{})
		lines(3)
		if want := `level=WARN msg="a publication without history went to a channel with recoverable or positioned subscribers: those who are away lose it" channel=a key=Config.Channel`; strings.Count(log.String(), want) != 2 {
			t.Errorf("no lines\n%s\nin\n%s", want, log.String())
		}
	})
}

// The checks of a publication allocate nothing.
func TestAllocations(t *testing.T) {
	r, o := &Rules{Channel: byNothing, Tracked: func(string) bool { return false }}, channel.PublishOptions{}
	data := []byte(`{"text":"hello, world"}`)
	if n := testing.AllocsPerRun(100, func() {
		opts := o
		if json, err := r.Publish("a", &opts); err != nil || !json {
			t.Error(json, err)
		}
		if checked, err := Payload("a", data); err != nil || !checked {
			t.Error(checked, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func byNothing(string) channel.Options { return channel.Options{} }
