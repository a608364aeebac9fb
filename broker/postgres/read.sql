-- Reads of streams and of the streams of maps. Each is one statement, so that a position and what belongs to it are of
-- one moment.

-- name: position
-- $1 channel, $2 meta TTL in microseconds. The last column tells that the life of the position has to be renewed.
SELECT m.top_offset, m.epoch, coalesce(m.expires_at < clock_timestamp() + $2::bigint * interval '1 microsecond', false)
FROM {{b}}_meta m WHERE m.channel = $1 AND {{alive}};

-- name: forward
-- $3 first offset, $4 limit or NULL.
SELECT m.top_offset, m.epoch, coalesce(m.expires_at < clock_timestamp() + $2::bigint * interval '1 microsecond', false), {{columns}}
FROM {{b}}_meta m LEFT JOIN LATERAL (
  SELECT r.* FROM {{rows}} r
  WHERE m.history_until > clock_timestamp() AND r.channel = m.channel AND r.epoch = m.epoch AND r.kind = 0 AND r.channel_offset > 0
    AND r.channel_offset >= greatest(m.first_offset, $3::bigint) AND r.channel_offset <= m.top_offset
  ORDER BY r.channel_offset LIMIT $4::bigint
) x ON true
WHERE m.channel = $1 AND {{alive}} ORDER BY x.channel_offset;

-- name: reverse
-- $3 last offset, $4 limit or NULL.
SELECT m.top_offset, m.epoch, coalesce(m.expires_at < clock_timestamp() + $2::bigint * interval '1 microsecond', false), {{columns}}
FROM {{b}}_meta m LEFT JOIN LATERAL (
  SELECT r.* FROM {{rows}} r
  WHERE m.history_until > clock_timestamp() AND r.channel = m.channel AND r.epoch = m.epoch AND r.kind = 0 AND r.channel_offset > 0
    AND r.channel_offset >= m.first_offset AND r.channel_offset <= least(m.top_offset, $3::bigint)
  ORDER BY r.channel_offset DESC LIMIT $4::bigint
) x ON true
WHERE m.channel = $1 AND {{alive}} ORDER BY x.channel_offset DESC;

-- name: positions
-- $1 channels, $2 meta TTL in microseconds.
SELECT m.channel, m.top_offset, m.epoch, coalesce(m.expires_at < clock_timestamp() + $2::bigint * interval '1 microsecond', false)
FROM {{b}}_meta m WHERE m.channel = ANY ($1::text[]) AND {{alive}};

-- name: renew
-- $1 channels, $2 meta TTL in microseconds. Rows that somebody else changes now are renewed by that.
UPDATE {{b}}_meta SET expires_at = {{b}}_life(NULL, clock_timestamp(), $2::bigint * interval '1 microsecond')
WHERE ctid = ANY (ARRAY(
  SELECT m.ctid FROM {{b}}_meta m
  WHERE m.channel = ANY ($1::text[]) AND m.expires_at > clock_timestamp()
    AND m.expires_at < clock_timestamp() + $2::bigint * interval '1 microsecond'
  FOR UPDATE SKIP LOCKED));

-- name: create
-- $1 channels, $2 meta TTL in microseconds. Begins empty streams, unless others have.
INSERT INTO {{b}}_meta AS m (channel, epoch, expires_at)
SELECT c, {{b}}_new_epoch(), {{b}}_life(NULL, clock_timestamp(), $2::bigint * interval '1 microsecond')
FROM (SELECT DISTINCT c FROM unnest($1::text[]) c ORDER BY c) d
ON CONFLICT (channel) DO UPDATE SET epoch = excluded.epoch, expires_at = excluded.expires_at,
  top_offset = 0, first_offset = 1, history_until = clock_timestamp(), top_version = 0, top_version_epoch = ''
WHERE m.expires_at <= clock_timestamp();

-- name: page
-- $1 channel, $2 last key of the page before, $3 limit.
SELECT m.top_offset, m.epoch, (SELECT count(*) FROM {{b}}_state e WHERE e.channel = m.channel),
  x.key, x.key_offset, x.data, x.tags, x.client_id, x.user_id, x.conn_info, x.chan_info,
  coalesce(x.time_ms, (extract(epoch FROM x.updated_at) * 1000)::bigint), x.version, x.score
FROM {{b}}_meta m LEFT JOIN LATERAL (
  SELECT * FROM {{b}}_state e WHERE e.channel = m.channel AND e.key > $2 ORDER BY e.key LIMIT $3::bigint
) x ON true
WHERE m.channel = $1 AND {{alive}} ORDER BY x.key;

-- name: entry
-- $1 channel, $2 key.
SELECT m.top_offset, m.epoch, (SELECT count(*) FROM {{b}}_state e WHERE e.channel = m.channel),
  x.key, x.key_offset, x.data, x.tags, x.client_id, x.user_id, x.conn_info, x.chan_info,
  coalesce(x.time_ms, (extract(epoch FROM x.updated_at) * 1000)::bigint), x.version, x.score
FROM {{b}}_meta m LEFT JOIN LATERAL (
  SELECT * FROM {{b}}_state e WHERE e.channel = m.channel AND e.key = $2
) x ON true
WHERE m.channel = $1 AND {{alive}} ORDER BY x.key;

-- name: expired
-- $1 number of shards, $2 limit. Maps with entries that have expired, by shard.
SELECT {{b}}_shard(d.channel, $1::int), array_agg(d.channel ORDER BY d.channel), sum(d.n)::bigint
FROM (
  SELECT e.channel, count(*) AS n FROM (
    SELECT s.channel FROM {{b}}_state s WHERE s.expires_at <= clock_timestamp() ORDER BY s.expires_at LIMIT $2::bigint
  ) e GROUP BY e.channel
) d GROUP BY 1;
