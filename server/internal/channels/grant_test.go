package channels

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
)

// TestOptionsAreGranted: each option of a subscription comes from the namespace, unless a token, a command or the server
// sets it. If this fails, an option of config.ChannelOptions lacks the tag grant with the name of the field.
func TestOptionsAreGranted(t *testing.T) {
	set := config.ChannelOptions{AllowedDeltaTypes: []string{"fossil"}, ForceRecoveryMode: "cache"}
	want := gyro.SubscribeOptions{AllowDelta: true, RecoveryMode: channel.RecoverCache}
	from, to := reflect.ValueOf(&set).Elem(), reflect.ValueOf(&want).Elem()
	for i := range from.NumField() {
		switch v := from.Field(i); v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(i + 1))
		}
		if field := from.Type().Field(i).Tag.Get("grant"); field != "" && field != "-" {
			to.FieldByName(field).Set(from.Field(i))
		}
	}
	resolver, err := NewResolver(config.Channel{WithoutNamespace: set}, config.PersonalChannel{})
	if err != nil {
		t.Fatal(err)
	}
	ch, _ := resolver.Resolve("a")
	got := Subscription(ch, SourceConnectToken)
	want.Source = uint8(SourceConnectToken)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const elsewhere = " ExpireAt ChanInfo Data RecoverSince ServerTagsFilter Publications Map Poll PresenceMaps Token Rights Needs "
	for i := range to.NumField() {
		if name := to.Type().Field(i).Name; to.Field(i).IsZero() != strings.Contains(elsewhere, " "+name+" ") {
			t.Errorf("no option of a namespace sets %s, or this test does not expect it", name)
		}
	}
	if d := Describe(ch.Options); d["presence"] != "on" || d["force_recovery_mode"] != "cache" || d["subscription_type"] != "stream" {
		t.Errorf("described: %v", d)
	}
}

// TestOverride: each option of an override changes an option of the subscription.
func TestOverride(t *testing.T) {
	fields := reflect.TypeFor[auth.Override]()
	for i := range fields.NumField() {
		var by auth.Override
		reflect.ValueOf(&by).Elem().Field(i).Set(reflect.ValueOf(new(true)))
		o := gyro.SubscribeOptions{}
		if Override(&o, by); reflect.ValueOf(o).IsZero() {
			t.Errorf("%s changes nothing", fields.Field(i).Name)
		}
	}
}

// Changes of clients have a bound, unless each user has one key. Changes of the backend have none.
func TestBoundForClients(t *testing.T) {
	for _, tt := range []struct {
		key              string
		configured, want int
	}{
		{"", 0, 10_000}, {"client_id", 0, 10_000}, {"user_id", 0, 0}, {"", 5, 5}, {"user_id", 5, 5}, {"", -1, 0}, {"client_id", -1, 0},
	} {
		var of Options
		of.Map.Mode, of.Map.ClientKey, of.Map.ClientMaxEntries = "persistent", tt.key, tt.configured
		if o, err := ClientMapChange(&of); err != nil || o.MaxEntries != tt.want || o.StreamSize != defaultStreamSize {
			t.Errorf("%+v: %+v, %v", tt, o, err)
		}
		if o, err := MapChange(&of); err != nil || o.MaxEntries != 0 {
			t.Errorf("the backend: %+v, %v", o, err)
		}
	}
	if _, err := ClientMapChange(new(Options)); err == nil {
		t.Error("no map has options")
	}
}
