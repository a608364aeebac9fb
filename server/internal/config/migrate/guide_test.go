package migrate

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of docs/migration.md")

const (
	guide       = "../../../../docs/migration.md"
	metricsPage = "../../../../docs/metrics.md"
	// families are the metrics of Centrifugo v6.
	families = "../../../../metrics/testdata/reference.txt"
)

// TestGuide compares the generated parts of docs/migration.md with what the tables of this
// package, the configuration and docs/metrics.md say.
func TestGuide(t *testing.T) {
	data, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := os.ReadFile(families)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, part := range map[string]string{
		"matrix": matrix(), "differences": differenceTable(), "metrics": metricTable(string(page), string(reference)), "keys": ownKeys(t),
	} {
		begin, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(text, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("the guide has no part %s", name)
		}
		text = before + begin + "\n" + part + end + after
	}
	if text == string(data) {
		return
	}
	if !*update {
		t.Error("docs/migration.md is stale: go test ./server/internal/config/migrate -run TestGuide -update")
		return
	}
	if err := os.WriteFile(guide, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// matrix is the support matrix.
func matrix() string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "### %s\n\n| feature | keys | note |\n| --- | --- | --- |\n", g.name)
		for _, f := range g.features {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.name, keyList(f.keys), f.note)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// keyList names the keys of a feature; channel options once, without their sections.
func keyList(keys []string) string {
	var out []string
	for _, k := range keys {
		k = strings.TrimPrefix(strings.TrimPrefix(k, "channel.without_namespace."), "channel.namespaces[].")
		if !slices.Contains(out, "`"+k+"`") {
			out = append(out, "`"+k+"`")
		}
	}
	return strings.Join(out, ", ")
}

func differenceTable() string {
	var b strings.Builder
	b.WriteString("| key | in Gyro | what to do |\n| --- | --- | --- |\n")
	for _, d := range differences {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.key, sentence(d.what), d.do)
	}
	for _, d := range optionDifferences {
		fmt.Fprintf(&b, "| `%s` of a namespace | %s | %s |\n", d.key, sentence(d.what), d.do)
	}
	return b.String() + "\n"
}

// metricTable tells of each family of Centrifugo what docs/metrics.md has of it. A line of the reference is a
// name, a type, labels, and perhaps a colon and buckets.
func metricTable(page, reference string) string {
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\|([^|]*)\\|")
	label := regexp.MustCompile("`([a-z_]+)`")
	ours := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		ours[m[1]] = []string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			ours[m[1]] = append(ours[m[1]], l[1])
		}
	}
	lines := map[string][]string{}
	for line := range strings.Lines(reference) {
		line, _, _ = strings.Cut(line, " : ")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		name := words[0]
		own, ok := ours[name]
		missing := slices.DeleteFunc(words[2:], func(l string) bool { return slices.Contains(own, l) })
		kind := "same"
		switch {
		case !ok:
			kind = "not yet"
		case len(missing) > 0:
			kind = "without `" + strings.Join(missing, "`, `") + "`"
		}
		lines[kind] = append(lines[kind], "`"+name+"`")
	}
	var kinds []string
	for k := range lines {
		if k != "same" && k != "not yet" {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	var b strings.Builder
	b.WriteString("| in Gyro | families, after the prefix |\n| --- | --- |\n")
	for _, k := range append(append([]string{"same"}, kinds...), "not yet") {
		if len(lines[k]) > 0 {
			fmt.Fprintf(&b, "| %s | %s |\n", k, strings.Join(lines[k], ", "))
		}
	}
	return b.String() + "\n"
}

// own are keys that Centrifugo does not know, by the end of their path, and what becomes of
// them there.
var own = []struct{ keys, then string }{
	{"engine.redis.sharded_pub_sub_partitions", "Names of keys in Redis differ with it: set it to 0 before the way back, and streams begin anew."},
	{"brokers presence_managers channel.namespaces[].broker_name channel.namespaces[].presence_manager_name",
		"All channels are on the default engine; streams of other brokers are not found."},
	{"map_brokers channel.namespaces[].map.broker_name", "Keys of Centrifugo PRO. Without it, all maps are in `map_broker`; those of other brokers are not found."},
	{"map_broker.cache.enabled map_broker.cache.max_bytes", "The cache is a feature of Centrifugo PRO, which has no bound in bytes. Without it, every read of a map asks the broker."},
	{"channel.namespaces[].map.client_max_entries", "Clients that may write to a map set as many keys as they like."},
	{"client.token.eddsa_public_key", "Tokens that are signed with EdDSA are refused."},
	{"client.token.jwks.enabled", "A key of Centrifugo PRO. Without it, tokens of these providers are refused; `jwks_public_endpoint` takes one provider."},
	{"http_api.keys http_api.jwks.enabled http_api.jwks.methods http_api.jwks.channels",
		"Requests with these keys are refused, and without Centrifugo PRO those with tokens: give the services `http_api.key`."},
	{"grpc_api.keys grpc_api.jwks.enabled grpc_api.jwks.methods grpc_api.jwks.channels",
		"**Without `grpc_api.key` everybody may call everything.** With it, calls with these keys are refused, and without Centrifugo PRO those with tokens."},
	{"channel.namespaces[].batch_max_delay channel.namespaces[].batch_max_size channel.namespaces[].batch_flush_latest", "Every publication is written at once."},
	{"channel.namespaces[].allow_channel_compaction channel.namespaces[].client_publish_debounce_interval",
		"No effect without Centrifugo PRO: messages have the channel's name, and clients publish every value."},
	{"shared_poll.notification.enabled channel.namespaces[].shared_poll.keep_latest_data channel.namespaces[].shared_poll.backpressure_max_interval",
		"No effect without Centrifugo PRO: values come with the next interval, and from the backend."},
	{"client.proxy.connect.max_concurrency client.proxy.connect.max_queue client.proxy.connect.max_streams client.proxy.connect.breaker.failures client.proxy.connect.breaker.open_for",
		"A backend that is down is asked by every client; the same holds for all other proxies."},
	{"client.forwarded_headers_max_size client.refresh_proxy_grace",
		"Headers of any length are forwarded, and connections whose refresh proxy gives no answer live on for ever."},
	{"uni_grpc.user_id_metadata", "**Anybody who reaches the port of gRPC clients is the user that metadata named as `client.user_id_http_header` says.**"},
	{"prometheus.client_labels_limit", "No effect; `prometheus.client_labels` is a key of Centrifugo PRO, without which no labels of clients are told apart."},
	{"prometheus.namespace", "Names of metrics begin with `centrifugo_`."},
	{"opentelemetry.proxy opentelemetry.client opentelemetry.sampler", "Clients and proxies are not traced, and `OTEL_TRACES_SAMPLER` alone says what is exported."},
	{"log.format log.access log.access_sample log.limit_burst log.limit_window", "Lines are text on a terminal and JSON elsewhere. The access log is at the level debug alone, and lines that repeat are all written, or dropped when the queue is full."},
	{"health.mode", "`/health` is 200 always; there is no `/health/live` and no `/health/ready`, so probes need their old paths."},
	{"websocket.dictionaries", "Messages are not compressed against dictionaries; clients that offer it get them as others do."},
	{"user_status.enabled user_status.storage_type", "Without Centrifugo PRO nobody's status is kept, and the RPC `update_user_status` goes to the backend; `storage_type` has no effect with it, which needs Redis."},
	{"admin.session_ttl", "Sessions last 30 days."},
	{"admin.api_key", "The key exists in the extended edition only."},
	{"uni_poll.enabled", "There is no such transport: clients have to use `uni_sse` or `uni_http_stream` before the way back."},
	{"sockjs.enabled", "There is no such transport: clients have to use another one before the way back."},
	{"uni_sse.retry_min uni_sse.retry_max", "Events have neither `retry` nor `id`: an `EventSource` misses what is published while it is away."},
	{"http_server.tls.certificates", "Clients get the certificate of `cert_pem` under every name."},
	{"http_server.tls.min_version http_server.tls.session_ticket_secret http_server.tls.session_ticket_secret_file http_server.tls.session_ticket_rotation",
		"The defaults of its TLS."},
	{"shutdown.delay shutdown.drain_time engine.redis.start_timeout broker.nats.start_timeout broker.postgres.io_timeout engine.redis.presence_read_from_replica engine.concurrency websocket.goroutine_driver " +
		"http_server.tls.autocert http_server.tls_autocert.directory_url http_server.tls_autocert.directory_ca_pem", "No effect."},
}

func ownKeys(t *testing.T) string {
	t.Helper()
	known := keyDocs(t)
	listed := make(map[string]bool) // by the last name
	for _, o := range own {
		for k := range strings.FieldsSeq(o.keys) {
			listed[k[strings.LastIndexByte(k, '.')+1:]] = true
		}
	}
	for k, doc := range known {
		if strings.Contains(doc, "Centrifugo has no such key") && !listed[k[strings.LastIndexByte(k, '.')+1:]] {
			t.Errorf("%s is a key of Gyro alone, and own does not list it", k)
		}
	}
	var b strings.Builder
	b.WriteString("| key of Gyro | on Centrifugo |\n| --- | --- |\n")
	for _, o := range own {
		for k := range strings.FieldsSeq(o.keys) {
			if _, ok := known[k]; !ok {
				t.Errorf("there is no key %s", k)
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", keyList(strings.Fields(o.keys)), o.then)
	}
	return b.String() + "\n"
}
