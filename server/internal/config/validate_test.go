package config

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/testkit/certtest"
)

const hist = `"history_size":1,"history_ttl":"1m"`

// validateTests has one row per rule: a
// configuration (or options of the namespace "chat", without braces) and what the
// error says, "" if it is valid.
var validateTests = []struct{ text, want string }{
	{`{"http_server":{"h2c_external":true}}`, "http_server.h2c_external"},
	{`{"http_server":{"h2c_external":true,"internal_port":"8000"}}`, "http_server.h2c_external"},
	{`{"http_server":{"h2c_external":true,"internal_port":9000,"tls":{"enabled":true}}}`, "http_server.h2c_external"},
	{`{"http_server":{"h2c_external":true,"internal_port":9000}}`, ""},
	{`{"http_server":{"http3":{"enabled":true}}}`, "http_server.http3.enabled: needs http_server.tls.enabled"},
	{`{"http_server":{"http3":{"enabled":true},"tls_autocert":{"enabled":true}}}`, "http_server.http3.enabled: excludes http_server.tls_autocert.enabled"},
	{`{"http_server":{"http3":{"enabled":true},"tls":{"enabled":true}},"webtransport":{"enabled":true}}`, ""},
	{`{"webtransport":{"enabled":true},"http_server":{"tls":{"enabled":true}}}`, "webtransport.enabled: needs http_server.http3.enabled"},
	{`{"http_server":{"port":65536}}`, "http_server.port: 65536 is more than 65535"},
	{`{"http_server":{"port":-1}}`, "http_server.port: -1 is less than 0"},
	{`{"http_server":{"internal_port":"x"}}`, `http_server.internal_port: "x"`},
	{`{"prometheus":{"enabled":true,"namespace":"my-app"}}`, `prometheus.namespace: "my-app" is not a name`},
	{`{"prometheus":{"enabled":true,"namespace":""}}`, ""}, // the default
	{`{"prometheus":{"enabled":true,"namespace":"1"}}`, `prometheus.namespace: "1"`},
	{`{"prometheus":{"enabled":true,"namespace":"centrifugo"}}`, ""},
	{`{"prometheus":{"client_labels":["tier","0_b"]}}`, ""},
	{`{"prometheus":{"client_labels":["tier","tier"]}}`, `prometheus.client_labels: "tier" is there twice`},
	{`{"prometheus":{"client_labels":["a-b"]}}`, `prometheus.client_labels: "a-b" is not a label`},
	{`{"prometheus":{"client_labels":["a","b","c","d","e"]}}`, `prometheus.client_labels: 5 labels are more than 4`},
	{`{"prometheus":{"client_labels_limit":255}}`, `prometheus.client_labels_limit: 255 is more than 254`},
	{`{"prometheus":{"recovered_publications_histogram":true}}`, ""},
	{`{"engine":{"type":"x"}}`, `engine.type: "x" is not one of memory, redis`},
	{`{"engine":{"type":"x"},"broker":{"enabled":true}}`, `engine.type: "x"`},
	{`{"engine":{"type":"x"},"broker":{"enabled":true},"presence_manager":{"enabled":true}}`, ""},
	{`{"controller":{"enabled":true}}`, `controller.type: "" is not postgres`},
	{`{"broker":{"type":"x"}}`, `broker.type: "x" is not one of memory, redis, nats, postgres`},
	{`{"broker":{"type":"redis"}}`, ""},
	{`{"map_broker":{"type":"x"}}`, `map_broker.type: "x"`},
	{`{"client":{"token":{"user_id_claim":"a-b"}}}`, `client.token.user_id_claim: "a-b"`},
	{`{"client":{"subscription_token":{"user_id_claim":"a1"}}}`, `client.subscription_token.user_id_claim`},
	{`{"client":{"subscription_token":{"meta_from_claim":{"a":"b"}}}}`, `client.subscription_token.meta_from_claim: is for connection tokens alone`},
	{`{"client":{"subscription_token":{"jwks":{"providers":[{"name":"p1","labels_from_claim":{"a":"b"}}]}}}}`, `client.subscription_token.jwks.providers[0](p1).labels_from_claim: is for connection tokens alone`},
	{`{"client":{"token":{"audience":"a","audience_regex":"b"}}}`, `client.token.audience_regex: excludes client.token.audience`},
	{`{"client":{"token":{"issuer":"a","issuer_regex":"b"}}}`, `client.token.issuer_regex`},
	{`{"client":{"token":{"issuer_regex":"("}}}`, `client.token.issuer_regex: "("`},
	{`{"client":{"token":{"jwks_public_endpoint":"https://x","jwks":{"enabled":true}}}}`, `client.token.jwks.enabled: excludes jwks_public_endpoint`},
	{`{"client":{"token":{"jwks":{"providers":[{"name":"a-b"}]}}}}`, `client.token.jwks.providers[0](a-b): name "a-b" does not match`},
	{`{"client":{"token":{"jwks":{"providers":[{"name":"one","enabled":true}]}}}}`, `client.token.jwks.providers[0](one).issuer: is required`},
	{`{"client":{"token":{"jwks":{"providers":[{"name":"p1","enabled":true,"issuer":"i"},{"name":"p2","enabled":true,"issuer":"i","audience":"a"}]}}}}`, `client.token.jwks.providers[1](p2).issuer: several`},
	{`{"client":{"token":{"jwks":{"providers":[{"name":"p1","enabled":true,"issuer":"i","audience":"a"},{"name":"p2","enabled":true,"issuer":"i","audience":"b"},{"name":"p3","issuer":"i"}]}}}}`, ""},
	{`{"client":{"token":{"jwks_public_endpoint":"https://x"}},"http_api":{"jwks":{"enabled":true,"endpoint":"https://x"}}}`, `http_api.jwks.endpoint: is also the JWKS of clients' tokens`},
	{`{"client":{"token":{"jwks":{"enabled":true,"providers":[{"name":"p1","enabled":true,"issuer":"i","endpoint":"https://x"}]}}},"http_api":{"jwks":{"enabled":true,"endpoint":"https://x"}}}`, `http_api.jwks.endpoint: is also the JWKS of clients' tokens`},
	{`{"client":{"token":{"jwks_public_endpoint":"https://x"}},"http_api":{"jwks":{"enabled":true,"endpoint":"https://x","scope":"api"}}}`, ""},
	{`{"client":{"token":{"jwks_public_endpoint":"https://x"}},"grpc_api":{"jwks":{"enabled":true,"endpoint":"https://x"}}}`, `grpc_api.jwks.endpoint: is also the JWKS of clients' tokens`},
	{`{"client":{"token":{"jwks_public_endpoint":"https://x"}},"grpc_api":{"jwks":{"enabled":true,"endpoint":"https://x","audience":"api"}}}`, ""},
	{`{"client":{"proxy":{"connect":{"enabled":true}}}}`, `client.proxy.connect.endpoint: is required`},
	{`{"client":{"proxy":{"refresh":{"enabled":true}}}}`, `client.proxy.refresh.endpoint: is required`},
	{`{"client":{"allowed_origins":["[a"]}}`, `client.allowed_origins: pattern 0, "[a"`},
	{`{"client":{"ping_interval":"8s"}}`, `client.pong_timeout: 8s is not less`},
	{`{"client":{"ping_interval":"-1s","pong_timeout":"-2s"}}`, ""},
	{`{"client":{"ping_interval":"500ms","pong_timeout":"400ms"}}`, ""},
	{`{"client":{"ping_interval":"-1s","pong_timeout":"-1s"}}`, `client.pong_timeout`},
	{`{"client":{"connect_code_to_unidirectional_disconnect":{"transforms":[{"code":1}]}}}`, `disconnect.transforms[0]: code and to.code`},
	{`{"client":{"connect_code_to_unidirectional_disconnect":{"transforms":[{"code":1,"to":{"code":1,"reason":"é"}}]}}}`, `ASCII`},
	{`{"uni_sse":{"retry_min":"6s"}}`, `uni_sse.retry_min: 6s is more than uni_sse.retry_max, 5s`},
	{`{"uni_sse":{"retry_min":"6s","retry_max":"6s"}}`, ``},
	{`{"uni_sse":{"retry_max":"0s"}}`, ``},
	{`{"uni_poll":{"timeout":"500ms"}}`, `uni_poll.timeout: 500ms is not from 1s to 5m`},
	{`{"uni_poll":{"timeout":"6m"}}`, `uni_poll.timeout: 6m0s is not from 1s to 5m`},
	{`{"uni_poll":{"timeout":"5m"}}`, ``},
	{`{"uni_sse":{"connect_code_to_http_response":{"transforms":[{"code":1}]}}}`, `uni_sse.connect_code_to_http_response.transforms[0]`},
	{`{"uni_http_stream":{"connect_code_to_http_response":{"transforms":[{"to":{"status_code":200}}]}}}`, `uni_http_stream.connect`},
	{`{"uni_sse":{"connect_code_to_http_response":{"transforms":[{"code":1,"to":{"status_code":99}}]}}}`, `transforms[0].to.status_code: 99 is not a status`},
	{`{"uni_sse":{"connect_code_to_http_response":{"transforms":[{"code":1,"to":{"status_code":403}}]}}}`, ``},
	{`{"client":{"subscribe_to_user_personal_channel":{"enabled":true,"personal_channel_namespace":"no"}}}`, `personal_channel_namespace: there is no namespace "no"`},
	{`{"client":{"subscribe_to_user_personal_channel":{"enabled":true,"single_connection":true}}}`, `single_connection`},
	{`{"client":{"subscribe_to_user_personal_channel":{"enabled":true}}}`, ""},
	{`{"proxies":[{"name":"p1","endpoint":"x"},{"name":"p1","endpoint":"x"}]}`, `proxies[1](p1): name "p1" is given twice`},
	{`{"proxies":[{"name":"default","endpoint":"x"}]}`, `reserved`},
	{`{"proxies":[{"name":"p!","endpoint":"x"}]}`, `proxies[0](p!): name "p!"`},
	{`{"proxies":[{"name":"p1"}]}`, `proxies[0](p1).endpoint`},
	{`{"proxies":[{"name":"p1","endpoint":"x","http":{"status_to_code_transforms":[{"status_code":1,"to_error":{"code":100}}]}}]}`, ""},
	{`{"proxies":[{"name":"p1","endpoint":"x","http":{"status_to_code_transforms":[{"to_error":{"code":100}}]}}]}`, `transforms[0].status_code`},
	{`{"proxies":[{"name":"p1","endpoint":"x","http":{"status_to_code_transforms":[{"status_code":1,"to_error":{"code":2500}}]}}]}`, `transforms[0].to_error.code: the code of an error is from 100 to 1999, not 2500`},
	{`{"proxies":[{"name":"p1","endpoint":"x","http":{"status_to_code_transforms":[{"status_code":1,"to_disconnect":{"code":5}}]}}]}`, `transforms[0].to_disconnect.code: the code of a disconnect is from 3000 to 4999, not 5`},
	{`{"client":{"connect_code_to_unidirectional_disconnect":{"transforms":[{"code":1,"to":{"code":5000}}]}}}`, `transforms[0].to.code: the code of a disconnect is from 3000 to 4999, not 5000`},
	{`{"proxies":[{"name":"p1","endpoint":"x","http":{"status_to_code_transforms":[{"status_code":1}]}}]}`, `exactly one`},
	{`{"proxies":[{"name":"p1","endpoint":"x","http":{"status_to_code_transforms":[{"status_code":1,"to_error":{"code":1},"to_disconnect":{"code":2}}]}}]}`, `exactly one`},
	{`{"proxies":[{"name":"p1","endpoint":"x","http":{"status_to_code_transforms":[{"status_code":1,"to_error":{"code":1,"message":"` + strings.Repeat("a", 124) + `"}}]}}]}`, `to_error.message`},
	{`{"rpc":{"namespaces":[{"name":"r1"},{"name":"r1"}]}}`, `rpc.namespaces[1](r1): name "r1" is given twice`},
	{`{"rpc":{"namespaces":[{"name":"r"}]}}`, `rpc.namespaces[0](r): name "r"`},
	{`{"rpc":{"without_namespace":{"proxy_name":"no"}}}`, `rpc.without_namespace.proxy_name: there is no proxy "no"`},
	{`{"rpc":{"without_namespace":{"proxy_enabled":true}}}`, `rpc.proxy.endpoint`},
	{`{"consumers":[{"name":"a-b","type":"kafka"}]}`, `consumers[0](a-b): name "a-b"`},
	{`{"consumers":[{"name":"c1"}]}`, `consumers[0](c1).type: is required`},
	{`{"consumers":[{"name":"c1","type":"x"}]}`, `.type: "x"`},
	{`{"consumers":[{"name":"c1","type":"kafka"},{"name":"c1","type":"kafka"}]}`, `given twice`},
	{`{"consumers":[{"name":"c1","type":"kafka","enabled":true}]}`, `consumers[0](c1).kafka.brokers`},
	{`{"consumers":[{"name":"c1","type":"postgresql","enabled":true}]}`, `postgresql.dsn`},
	{`{"consumers":[{"name":"c1","type":"nats_jetstream","enabled":true,"nats_jetstream":{"deliver_policy":"x"}}]}`, `deliver_policy: "x" is neither new nor all`},
	{`{"consumers":[{"name":"c1","type":"postgresql","enabled":true,"postgresql":{"num_partitions":-1}}]}`, `num_partitions: -1 is not between 1 and 4096`},
	{`{"consumers":[{"name":"c1","type":"postgresql","enabled":true,"postgresql":{"partition_select_limit":-1}}]}`, `partition_select_limit: -1 is not between 1 and 100000`},
	{`{"consumers":[{"name":"c1","type":"postgresql","enabled":true,"postgresql":{"partition_poll_interval":"-1s"}}]}`, `partition_poll_interval: -1s is not positive`},
	{`{"consumers":[{"name":"c1","type":"kafka","enabled":true,"kafka":{"max_poll_records":-1}}]}`, `max_poll_records: -1 is less than 1`},
	{`{"consumers":[{"name":"c1","type":"kafka","enabled":true,"kafka":{"partition_queue_max_size":-2}}]}`, `partition_queue_max_size: -2 is less than -1`},
	{`{"consumers":[{"name":"c1","type":"kafka","enabled":true,"kafka":{"fetch_max_bytes":-1}}]}`, `fetch_max_bytes: -1 is not between 0 and 1073741824`},
	{`{"consumers":[{"name":"c1","type":"kafka","enabled":true,"kafka":{"assume_role_arn":"a"}}]}`, `assume_role_arn: needs sasl_mechanism aws-msk-iam`},
	{`{"consumers":[{"name":"c1","type":"nats_jetstream","enabled":true,"nats_jetstream":{"max_ack_pending":-1}}]}`, `max_ack_pending: -1 is less than 1`},
	{`{"consumers":[{"name":"c1","type":"redis_stream","enabled":true,"redis_stream":{"num_workers":1025}}]}`, `num_workers: 1025 is not between 1 and 1024`},
	{`{"consumers":[{"name":"c1","type":"redis_stream","enabled":true,"redis_stream":{"visibility_timeout":"1ms"}}]}`, `visibility_timeout: 1ms is less than 1s`},
	{`{"consumers":[{"name":"c1","type":"google_pub_sub","enabled":true,"google_pub_sub":{"max_outstanding_messages":-1}}]}`, `max_outstanding_messages: -1 is less than 1`},
	{`{"consumers":[{"name":"c1","type":"google_pub_sub","enabled":true,"google_pub_sub":{"max_outstanding_bytes":-1}}]}`, `max_outstanding_bytes: -1 is less than 1`},
	{`{"consumers":[{"name":"c1","type":"google_pub_sub","enabled":true,"google_pub_sub":{"auth_mechanism":"magic"}}]}`, `auth_mechanism: "magic" is unknown`},
	{`{"consumers":[{"name":"c1","type":"google_pub_sub","enabled":true,"google_pub_sub":{"auth_mechanism":"service_account"}}]}`, `credentials_file: is required with auth_mechanism service_account`},
	{`{"consumers":[{"name":"c1","type":"aws_sqs","enabled":true,"aws_sqs":{"max_number_of_messages":11}}]}`, `max_number_of_messages: 11 is not between 1 and 10`},
	{`{"consumers":[{"name":"c1","type":"aws_sqs","enabled":true,"aws_sqs":{"wait_time_time":"21s"}}]}`, `wait_time_time: 21s is more than 20s`},
	{`{"consumers":[{"name":"c1","type":"aws_sqs","enabled":true,"aws_sqs":{"visibility_timeout":"13h"}}]}`, `visibility_timeout: 13h0m0s is more than 12h0m0s`},
	{`{"consumers":[{"name":"c1","type":"aws_sqs","enabled":true,"aws_sqs":{"max_concurrency":-1}}]}`, `max_concurrency: -1 is less than 1`},
	{`{"consumers":[{"name":"c1","type":"azure_service_bus","enabled":true,"azure_service_bus":{"max_concurrent_calls":-1}}]}`, `max_concurrent_calls: -1 is less than 1`},
	{`{"consumers":[{"name":"c1","type":"azure_service_bus","enabled":true,"azure_service_bus":{"max_receive_messages":5001}}]}`, `max_receive_messages: 5001 is not between 1 and 5000`},
	{`{"consumers":[{"name":"c1","type":"redis_stream","enabled":true}]}`, `redis_stream.streams`},
	{`{"consumers":[{"name":"c1","type":"redis_stream","enabled":true,"redis_stream":{"streams":["s"],"consumer_group":"g","sentinel_address":"a:1"}}]}`,
		`consumers[0](c1).redis_stream.sentinel_master_name: is required`},
	{`{"consumers":[{"name":"c1","type":"redis_stream","enabled":true,"redis_stream":{"streams":["s"],"consumer_group":"g","cluster_address":["a:1","b:1"]}}]}`,
		`consumers[0](c1).redis_stream.cluster_address: a consumer has one address`},
	{`{"consumers":[{"name":"c1","type":"redis_stream","enabled":true,"redis_stream":{"streams":["s"],"consumer_group":"g","io_timeout":"-1s"}}]}`,
		`consumers[0](c1).redis_stream.io_timeout`},
	{`{"consumers":[{"name":"c1","type":"google_pub_sub","enabled":true}]}`, `google_pub_sub.project_id`},
	{`{"consumers":[{"name":"c1","type":"aws_sqs","enabled":true}]}`, `aws_sqs.queues`},
	{`{"consumers":[{"name":"c1","type":"azure_service_bus","enabled":true,"azure_service_bus":{"use_azure_identity":true}}]}`, `use_azure_identity`},
	{`{"http_api":{"error_mode":"x"}}`, `http_api.error_mode: "x"`},
	{`{"websocket":{"compression_level":10}}`, `websocket.compression_level`},
	{`{"channel":{"history_meta_ttl":"1500ms"}}`, `channel.history_meta_ttl: 1.5s is not a number of whole seconds`},
	{`{"channel":{"publication_data_format":"xml"}}`, `channel.publication_data_format: "xml"`},
	{`{"channel":{"namespaces":[{"name":"a"}]}}`, `channel.namespaces[0](a): name "a" does not match`},
	{`{"channel":{"namespaces":[{"name":"a b"}]}}`, `"a b" does not match`},
	{`{"channel":{"namespaces":[{"name":"a.b"},{"name":"a.b"}]}}`, `channel.namespaces[1](a.b): name "a.b" is given twice`},
	{`{"channel":{"without_namespace":{"history_size":1}}}`, `channel.without_namespace.history_ttl`},

	{hist, ""},
	{`"history_size":-1,"history_ttl":"1s"`, "channel.namespaces[0](chat).history_size: -1"},
	{`"history_size":1,"history_ttl":"-1s"`, "history_ttl: -1s"},
	{`"history_size":1,"history_ttl":"1500ms"`, "channel.namespaces[0](chat).history_ttl: 1.5s"},
	{hist + `,"history_meta_ttl":"90500ms"`, "history_meta_ttl: 1m30.5s"},
	{`"history_size":1`, "history_size (1) and history_ttl (0s) must be set together"},
	{`"history_ttl":"1s"`, "must be set together"},
	{hist + `,"history_meta_ttl":"59s"`, "1m0s is more than the effective history_meta_ttl, 59s"},
	{`"history_size":1,"history_ttl":"721h"`, "effective history_meta_ttl, 720h0m0s"},
	{`"force_recovery":true`, "force_recovery: needs"},
	{`"force_positioning":true,"allow_recovery":true,"allow_positioning":true`, ""},
	{hist + `,"auto_cache_recover":true`, "auto_cache_recover: needs"},
	{hist + `,"auto_cache_recover":true,"force_recovery":true,"force_recovery_mode":"cache"`, ""},
	{`"force_recovery_mode":"x"`, `force_recovery_mode: "x"`},
	{`"channel_regex":"("`, `channel_regex: "("`},
	{`"allowed_delta_types":["fossil","x"]`, `allowed_delta_types: "x" is not one of fossil`},
	{`"publication_data_format":"x"`, `publication_data_format: "x"`},
	{`"publication_data_format":"binary"`, ""},
	{`"batch_max_delay":"1m","batch_max_size":64`, ""},
	{`"batch_max_delay":"5ms"`, ""},
	{`"batch_max_size":1`, ""},
	{`"batch_max_delay":"-1ms"`, "channel.namespaces[0](chat).batch_max_delay: -1ms is less than 0s"},
	{`"batch_max_delay":"61s"`, "channel.namespaces[0](chat).batch_max_delay: 1m1s is more than 1m0s"},
	{`"batch_max_size":-1`, "channel.namespaces[0](chat).batch_max_size: -1 is less than 0"},
	{`"batch_max_size":65`, "channel.namespaces[0](chat).batch_max_size: 65 is more than 64"},
	{`{"channel":{"without_namespace":{"batch_max_delay":"2m"}}}`, "channel.without_namespace.batch_max_delay: 2m0s"},
	{`"batch_flush_latest":true,"batch_max_delay":"5ms","allow_positioning":true,"allow_recovery":true`, ""},
	{`"batch_flush_latest":true,"batch_max_size":5,"subscription_type":"map","map":{"mode":"ephemeral","key_ttl":"1m"}`, ""},
	{`"batch_flush_latest":true`, "channel.namespaces[0](chat).batch_flush_latest: needs batch_max_delay or batch_max_size"},
	{`"batch_flush_latest":true,"batch_max_size":5,"force_positioning":true`, "channel.namespaces[0](chat).batch_flush_latest: has no effect with force_positioning"},
	{`"batch_flush_latest":true,"batch_max_size":5,"history_size":5,"history_ttl":"5s","force_recovery":true`, "channel.namespaces[0](chat).batch_flush_latest: has no effect"},
	{`"batch_flush_latest":true,"batch_max_size":5,"subscription_type":"map","map":{"mode":"recoverable","key_ttl":"1m"}`, "channel.namespaces[0](chat).batch_flush_latest: has no effect"},
	{`"client_publish_debounce_interval":"1h","allow_channel_compaction":true`, ""},
	{`"client_publish_debounce_interval":"61m"`, "channel.namespaces[0](chat).client_publish_debounce_interval: 1h1m0s is more than 1h0m0s"},
	{`"client_publish_debounce_interval":"-1s"`, "channel.namespaces[0](chat).client_publish_debounce_interval: -1s is less than 0s"},
	{`"subscribe_stream_proxy_enabled":true,"subscribe_stream_proxy_name":"p1","publish_proxy_enabled":true,"publish_proxy_name":"p1"`, "excludes"},
	{`"subscribe_stream_proxy_enabled":true,"subscribe_stream_proxy_name":"p2"`, "HTTP endpoint"},
	{`"subscribe_stream_proxy_enabled":true`, "channel.proxy.subscribe_stream.endpoint: is required"},
	{`"subscribe_stream_proxy_enabled":true,"subscribe_stream_proxy_bidirectional":true,"subscribe_stream_proxy_name":"p1"`, ""},
	{`"sub_refresh_proxy_name":"no"`, `channel.namespaces[0](chat).sub_refresh_proxy_name: there is no proxy "no"`},
	{`"map":{"remove_proxy_name":"no"}`, `map.remove_proxy_name: there is no proxy "no"`},
	{`"subscribe_proxy_enabled":true`, "channel.proxy.subscribe.endpoint: is required"},
	{`"publish_proxy_enabled":true`, "channel.proxy.publish.endpoint: is required"},
	{`"cache_empty_proxy_enabled":true,` + hist, "channel.proxy.cache_empty.endpoint: is required"},
	{`"cache_empty_proxy_enabled":true,"cache_empty_proxy_name":"p1"`, "channel.namespaces[0](chat).cache_empty_proxy_enabled: needs history_size and history_ttl"},
	{`"cache_empty_proxy_enabled":true,"cache_empty_proxy_name":"p1",` + hist, ""},
	{`"cache_empty_proxy_name":"no"`, `channel.namespaces[0](chat).cache_empty_proxy_name: there is no proxy "no"`},
	{`"subscription_type":"x"`, `subscription_type: "x"`},
	{`"subscription_type":"stream"`, ""},
	{`"subscription_type":"map"`, "map.mode: is required"},
	{`"map":{"mode":"x"}`, `map.mode: "x"`},
	{`"subscription_type":"map","map":{"mode":"recoverable"}`, "map.key_ttl: 0s must be positive"},
	{`"subscription_type":"map","map":{"mode":"persistent","key_ttl":"1s"}`, "map.key_ttl: 1s"},
	{`"subscription_type":"map_users","map":{"mode":"persistent"}`, "map.mode: persistent is not possible"},
	{`"subscription_type":"map","map":{"mode":"ephemeral","key_ttl":"1s","stream_size":1}`, "map.stream_size"},
	{`"subscription_type":"map","map":{"mode":"persistent","stream_size":-1}`, "map.stream_size"},
	{`"subscription_type":"map","map":{"mode":"recoverable","key_ttl":"1s","meta_ttl":"59s"}`, "map.meta_ttl: 59s is less"},
	{`"map":{"client_max_entries":-1}`, ""},
	{`"map":{"client_key":"x"}`, `map.client_key: "x"`},
	{`"map":{"client_key":"user_id","publish_proxy_enabled":true,"publish_proxy_name":"p1"}`, `map.client_key`},
	{`"map":{"remove_client_on_unsubscribe":true}`, "remove_client_on_unsubscribe: needs"},
	{`"map":{"min_page_size":-1}`, "map.min_page_size: -1"},
	{`"map":{"min_page_size":5,"default_page_size":4}`, "map.min_page_size: 5 is more than default_page_size, 4"},
	{`"map":{"max_page_size":5,"default_page_size":6}`, "map.default_page_size: 6 is more than"},
	{`"map":{"full_state_tick_interval":"1s"}`, "map.full_state_tick_interval: needs full_state_channel_prefix"},
	{`"map":{"full_state_channel_prefix":"whole:"}`, "map.full_state_channel_prefix: needs subscription_type map"},
	{fullState("whole:", `"full_state_tick_interval":"9ms"`), "map.full_state_tick_interval: 9ms is less than 10ms"},
	{fullState("whole:", `"full_state_tick_interval":"2h"`), "map.full_state_tick_interval: 2h0m0s"},
	{fullState("whole:board-", `"full_state_tick_interval":"10ms"`), ""},
	{fullState("whole", ""), `"whole" must start with a namespace of subscription_type stream`},
	{fullState("chat:", ""), `"chat:" must start with a namespace of subscription_type stream`},
	{fullState("whole:", "", `"publication_data_format":"binary"`), "needs values that are JSON"},
	{fullState("used:", ""), `namespace "used" must not have history_size`},
	{fullState("used:", ""), `namespace "used" must not have join_leave`},
	{`"map_clients_presence_channel_prefix":"chat:"`, "map_clients_presence_channel_prefix"},
	{`"map_users_presence_channel_prefix":"x"`, "map_users_presence_channel_prefix"},
	{`"subscription_type":"shared_poll"`, "shared_poll needs shared_poll.hmac_secret_key"},
	{`"subscription_type":"shared_poll","shared_poll":{"proxy_name":"no"}`, `shared_poll.proxy_name: there is no proxy "no"`},
	{`"shared_poll":{"mode":"x"}`, `shared_poll.mode: "x"`},
	{`"shared_poll":{"publish_enabled":true}`, "publish_enabled: needs mode versioned"},
	{`"shared_poll":{"notification":{"batch_max_size":-1}}`, "channel.namespaces[0](chat).shared_poll.notification.batch_max_size: -1"},
	{`"shared_poll":{"notification":{"batch_max_delay":"61s"}}`, "channel.namespaces[0](chat).shared_poll.notification.batch_max_delay: 1m1s is more than 1m0s"},
	{`"shared_poll":{"notification":{"batch_max_delay":"1m","batch_max_size":100000}}`, ""},
	{notified(`"type":"redis"`), ""},
	{notified(`"type":"nats","channel":"prices.changed"`), ""},
	{`{"shared_poll":{"notification":{"type":"kafka","channel":"a b"}}}`, ""}, // not in use
	{notified(`"channel":"x"`), `shared_poll.notification.type: "" is not one of redis, nats`},
	{notified(`"type":"kafka"`), `shared_poll.notification.type: "kafka" is not one of redis, nats`},
	{notified(`"type":"redis","channel":""`), ""},
	{notified(`"type":"redis","channel":"` + strings.Repeat("x", 256) + `"`), "shared_poll.notification.channel: 256 bytes"},
	{notified(`"type":"redis","channel":"news:*"`), ""}, // SUBSCRIBE has no patterns
	{notified(`"type":"nats","channel":"prices.*"`), `shared_poll.notification.channel: "prices.*" is not a subject`},
	{notified(`"type":"nats","channel":"prices.>"`), `shared_poll.notification.channel: "prices.>"`},
	{notified(`"type":"nats","channel":"a b"`), `shared_poll.notification.channel: "a b"`},
	{notified(`"type":"nats","channel":"a..b"`), `shared_poll.notification.channel: "a..b"`},
	{notified(`"type":"nats","channel":".a"`), `shared_poll.notification.channel: ".a"`},
	{notified(`"type":"nats","nats":{"url":""}`), ""}, // an empty value is the default
	{notified(`"type":"redis","redis":{"address":["a:1","b:1"]}`), "shared_poll.notification.redis.address: there must be one item, not 2"},
	{notified(`"type":"redis","redis":{"address":["a:1","b:1"],"cluster_address":["a:1,b:1"]}`), ""},
	{notified(`"type":"redis","redis":{"cluster_address":["a:1","b:1"]}`), "shared_poll.notification.redis.cluster_address: there must be one item"},
	{notified(`"type":"redis","redis":{"sentinel_address":["a:1","b:1"],"sentinel_master_name":"m"}`), "shared_poll.notification.redis.sentinel_address: there must be one item"},
	{notified(`"type":"redis","redis":{"sentinel_address":["a:1"]}`), "shared_poll.notification.redis.sentinel_master_name: is required"},
	{notified(`"type":"redis","redis":{"io_timeout":"-1s"}`), "shared_poll.notification.redis.io_timeout: -1s"},
	{notified(`"type":"redis","batch_max_delay":"2m"`), "shared_poll.notification.batch_max_delay: 2m0s is more than 1m0s"},
}

// notified is a configuration with notifications.
func notified(keys string) string {
	return `{"shared_poll":{"notification":{"enabled":true,` + keys + `}}}`
}

// fullState returns the options of a map with a prefix of full-state channels, with further options of the map, then of the
// namespace, and the namespaces whole and used.
func fullState(prefix, more string, options ...string) string {
	o := []string{`"subscription_type":"map","map":{"mode":"persistent","full_state_channel_prefix":"` + prefix + `"`}
	if more != "" {
		o[0] += "," + more
	}
	o[0] += "}"
	return strings.Join(append(o, options...), ",") + `},{"name":"whole"},{"name":"used","join_leave":true,` + hist
}

func TestValidate(t *testing.T) {
	for _, tt := range validateTests {
		text := tt.text
		if text[0] == '"' {
			text = `{"proxies":[{"name":"p1","endpoint":"x:1"},{"name":"p2","endpoint":"http://x"}],
				"channel":{"namespaces":[{"name":"chat",` + text + `}]}}`
		}
		err := mustLoad(t, "c.json", text).Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s:\n\terror %v\n\twant  %q", tt.text, err, tt.want)
		}
	}
}

// TestGathering: a namespace replaces what is said for all.
func TestGathering(t *testing.T) {
	for _, tt := range []struct{ all, own, want NotifyBatch }{
		{NotifyBatch{}, NotifyBatch{}, NotifyBatch{}},
		{NotifyBatch{5, 0}, NotifyBatch{}, NotifyBatch{5, 100 * time.Millisecond}},
		{NotifyBatch{0, time.Second}, NotifyBatch{}, NotifyBatch{0, time.Second}},
		{NotifyBatch{5, time.Second}, NotifyBatch{7, 0}, NotifyBatch{7, time.Second}},
		{NotifyBatch{5, time.Second}, NotifyBatch{0, 2}, NotifyBatch{5, 2}},
		{NotifyBatch{5, 0}, NotifyBatch{1, 0}, NotifyBatch{1, 0}},
	} {
		if got := (&PollNotification{NotifyBatch: tt.all}).Gathering(&SharedPollOptions{Notification: tt.own}); got != tt.want {
			t.Errorf("%v, %v: %v, want %v", tt.all, tt.own, got, tt.want)
		}
	}
}

// TestUnused: sections that nothing uses do not stand in the way.
func TestUnused(t *testing.T) {
	c := mustLoad(t, "c.json", `{"engine":{"redis":{"address":"redis://x"}},"admin":{"password":"p","secret":"s"},"broker":{"type":"nats"},
		"proxies":[{"name":"p1","endpoint":"http://x"}],"client":{"subscription_token":{"jwks_public_endpoint":"x"}},"consumers":[{"name":"c1","type":"kafka"}]}`)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestPEM(t *testing.T) {
	certPEM := certtest.SelfSigned(1).Certificate
	file := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, certPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	for cert, path := range map[string]string{string(certPEM): "", base64.StdEncoding.EncodeToString(certPEM): "", file: file} {
		text, err := PEM(cert).Load()
		if err != nil || string(text) != string(certPEM) || PEM(cert).File() != path {
			t.Errorf("%s: %s %v, file %q", cert, text, err, PEM(cert).File())
		}
	}
	for _, mangled := range []PEM{"hush-hush", PEM(filepath.Join(t.TempDir(), "hush.pem"))} {
		if _, err := mangled.Load(); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: error %v", mangled, err)
		}
	}
}
