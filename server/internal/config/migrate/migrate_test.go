package migrate

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// keyDocs returns what the reference says of each key.
func keyDocs(t *testing.T) map[string]string {
	t.Helper()
	var b bytes.Buffer
	if err := config.WriteMarkdown(&b, "", 1); err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| ([^|]*) \\|$").FindAllStringSubmatch(b.String(), -1) {
		docs[m[1]] = m[2]
	}
	for key, doc := range maps.Clone(docs) {
		first, ok := strings.CutPrefix(doc, "The keys of `")
		if !ok {
			continue
		}
		first = strings.TrimSuffix(first, "`.")
		for k, doc := range maps.Clone(docs) {
			if rest, ok := strings.CutPrefix(k, first+"."); ok {
				docs[key+"."+rest] = doc
			}
		}
	}
	if len(docs) < 1000 {
		t.Fatalf("only %d keys are known", len(docs))
	}
	return docs
}

// TestMatrixIsTrue: keys of the matrix exist, and do something.
func TestMatrixIsTrue(t *testing.T) {
	meaning := keyDocs(t)
	for _, g := range groups {
		for _, f := range g.features {
			for _, k := range f.keys {
				if doc, known := meaning[k]; !known || strings.Contains(doc, "No effect:") {
					t.Errorf("%s: %s is not a supported key: %q", f.name, k, doc)
				}
			}
		}
	}
	for _, d := range differences {
		if _, known := meaning[d.key]; !known {
			t.Errorf("a difference of %s, which is no key", d.key)
		}
	}
	for _, d := range optionDifferences {
		if _, known := meaning["channel.without_namespace."+d.key]; !known {
			t.Errorf("a difference of %s, which is no channel option", d.key)
		}
	}
	for k := range meaning {
		if do := ofExtended(k); do != "" {
			t.Errorf("%s is a key of Gyro, not only of Centrifugo PRO", k)
		}
	}
}

func examine(t *testing.T, text string, env ...string) *config.Examination {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := config.Examine(config.Options{File: file, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func keysOf(r Report, kind Kind) (keys []string) {
	for _, f := range r.Findings {
		if f.Kind == kind {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

// TestDifferences: each difference is reported if the configuration makes it matter, and
// not otherwise.
func TestDifferences(t *testing.T) {
	if r := New(examine(t, "{}")); !r.Starts || len(r.Findings) != 0 {
		t.Errorf("of an empty file: %+v", r)
	}
	for text, want := range map[string]string{
		"health: {enabled: true}":                                                  "health.enabled",
		"health: {enabled: true, mode: live}":                                      "",
		"prometheus: {enabled: true, namespace: centrifugo}":                       "prometheus.enabled",
		"prometheus: {enabled: true}":                                              "prometheus.namespace prometheus.enabled",
		"engine: {type: redis}":                                                    "engine.type",
		"broker: {enabled: true, type: nats, nats: {allow_wildcards: true}}":       "broker.type broker.nats.allow_wildcards",
		"channel: {max_length: 100}":                                               "channel.max_length",
		"client: {queue_max_size: 100}":                                            "client.queue_max_size",
		"channel: {namespaces: [{name: chat, allow_user_limited_channels: true}]}": "channel.namespaces[0](chat).allow_user_limited_channels",
		"channel: {namespaces: [{name: m, subscription_type: map, map: {mode: persistent, allow_publish_for_client: true}}]}":                        "channel.namespaces[0](m).map.client_max_entries",
		"channel: {namespaces: [{name: m, subscription_type: map, map: {mode: persistent, allow_publish_for_client: true, client_key: user_id}}]}":   "",
		"channel: {namespaces: [{name: m, subscription_type: map, map: {mode: persistent, allow_publish_for_client: true, client_max_entries: 5}}]}": "",
		"channel: {without_namespace: {allow_tags_filter: 1, allowed_delta_types: [fossil]}}":                                                        "channel.without_namespace.allow_tags_filter",
	} {
		if got := strings.Join(keysOf(New(examine(t, text)), Differs), " "); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestVariables: what variables set is reported as theirs.
func TestVariables(t *testing.T) {
	x := examine(t, "client: {channel_limit: -1}\nchannel: {namespaces: [{name: from-file, history_size: -1}]}\n",
		"CENTRIFUGO_CLIENT_CHANNEL_LIMIT=-5", "GYRO_CLIENT_CHANNEL_LIMIT=-7", "CENTRIFUGO_ADMIN_ENABLED=1", "CENTRIFUGO_ADMIN_ENABLE=1",
		`CENTRIFUGO_CHANNEL_NAMESPACES=[{"name":"from-env","history_size":-1,"x":1}]`, "CENTRIFUGO_CHANNEL_NAMESPACES_FROM_ENV_PRESENCE=maybe")
	var got []string
	for _, f := range New(x).Findings {
		got = append(got, string(f.Kind)+" "+f.Key+" "+filepath.Base(f.Where)+" "+f.Meaning)
	}
	slices.Sort(got)
	want := []string{
		"differs GYRO_CLIENT_CHANNEL_LIMIT GYRO_CLIENT_CHANNEL_LIMIT ",
		"refused admin.enabled CENTRIFUGO_ADMIN_ENABLED ",
		"refused channel.namespaces[0](from-env).history_size CENTRIFUGO_CHANNEL_NAMESPACES ",
		"refused channel.namespaces[0](from-env).history_ttl CENTRIFUGO_CHANNEL_NAMESPACES ",
		"refused channel.namespaces[0](from-env).presence CENTRIFUGO_CHANNEL_NAMESPACES_FROM_ENV_PRESENCE ",
		"refused client.channel_limit GYRO_CLIENT_CHANNEL_LIMIT ",
		"unknown CENTRIFUGO_ADMIN_ENABLE CENTRIFUGO_ADMIN_ENABLE CENTRIFUGO_ADMIN_ENABLED",
		"unknown channel.namespaces[0].x CENTRIFUGO_CHANNEL_NAMESPACES ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestIgnored: keys without effect are named one by one, unless their feature is reported.
func TestIgnored(t *testing.T) {
	for text, want := range map[string]string{
		"admin: {enabled: true, password: x}": "",
		"admin: {password: x}":                "",
		"usage_stats: {disabled: true}":       "usage_stats.disabled",
	} {
		keys := keysOf(New(examine(t, text)), Ignored)
		slices.Sort(keys)
		expected := strings.Fields(want)
		slices.Sort(expected)
		if !slices.Equal(keys, expected) {
			t.Errorf("%s: got %s, want %s", text, keys, want)
		}
	}
}

// TestEveryProblemOfAKey: a key may have several problems.
func TestEveryProblemOfAKey(t *testing.T) {
	var got []string
	for _, f := range New(examine(t, "channel: {namespaces: [{name: a}, {name: a}]}")).Findings {
		got = append(got, f.Reason)
	}
	if text := strings.Join(got, " "); len(got) != 3 || !strings.Contains(text, "does not match") || !strings.Contains(text, "given twice") {
		t.Errorf("%q", got)
	}
}

// TestFurther: errors of others are added to those of the examination, once.
func TestFurther(t *testing.T) {
	r := New(examine(t, "engine: {type: x}"), nil, errors.Join(errors.New("engine.type: again"), errors.New("client.token.rsa_public_key: no PEM")))
	if got := strings.Join(keysOf(r, Refused), " "); got != "engine.type client.token.rsa_public_key" || r.Starts {
		t.Errorf("got %s", got)
	}
}

// FuzzReport: a configuration starts by the report if and only if it loads and is valid, and
// the report names every key that Validate does.
func FuzzReport(f *testing.F) {
	f.Add("engine: {type: x}\nclient: {ping_interval: 25}\n", "")
	f.Add("channel: {namespaces: [{name: chat, history_size: 1}, 1]}\nsse.enabled: true\n", "GYRO_CONSUMERS=[{}]")
	f.Add("client: []\nproxies: {name: a}\nx: [{y: 1}]\n", "GYRO_PROXIES=a b\nCENTRIFUGO_X=1")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, env string) {
		if len(text)+len(env) > 4096 {
			return
		}
		o := config.Options{File: filepath.Join(dir, "c.yaml"), RequireFile: true, Env: strings.Split(env, "\n")}
		if err := os.WriteFile(o.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := config.Load(o)
		x, failed := config.Examine(o)
		if failed != nil {
			if err == nil {
				t.Fatalf("loads, but: %v", failed)
			}
			return
		}
		r := New(x)
		if err == nil {
			err = cfg.Validate()
		}
		if r.Starts != (err == nil) {
			t.Fatalf("starts: %v, but loading says %v", r.Starts, err)
		}
		for _, e := range single([]error{err}) {
			key, _, _ := strings.Cut(e.Error(), ": ")
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.HasPrefix(f.Key, key) }) {
				t.Errorf("%s is not reported", key)
			}
		}
		if err := r.WriteText(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	})
}
