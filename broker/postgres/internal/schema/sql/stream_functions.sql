-- Publishes to a channel whose shard is locked. If p_kept is not set, the publication gets no offset. NULL as time to live
-- and size of the history keeps those that the stream has.
CREATE OR REPLACE FUNCTION {{s}}_put(
  p_shard smallint, p_channel text, p_kept boolean, p_data {{data}}, p_tags jsonb,
  p_history_ttl interval, p_history_size int, p_meta_ttl interval, p_version bigint, p_version_epoch text,
  p_idempotency_key text, p_idempotency_ttl interval, p_use_delta boolean,
  p_client_id text, p_user_id text, p_conn_info {{data}}, p_chan_info {{data}},
  p_time_ms bigint, p_key text, p_removed boolean, p_score bigint,
  OUT r_id bigint, OUT r_offset bigint, OUT r_epoch text, OUT r_reason text
) LANGUAGE plpgsql AS $$
DECLARE
  t timestamptz := clock_timestamp();
  m {{s}}_meta%ROWTYPE;
  life interval;
  before_data {{data}};
  before_tags jsonb;
  before_time bigint;
BEGIN
  IF p_idempotency_key IS NOT NULL THEN
    SELECT i.result_id, i.result_offset, i.result_epoch, 'idempotency' INTO r_id, r_offset, r_epoch, r_reason
      FROM {{s}}_idempotency i
      WHERE i.channel = p_channel AND i.idempotency_key = p_idempotency_key AND i.expires_at > t;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  r_offset := 0;
  r_epoch := '';
  IF p_kept THEN
    LOOP -- a row that has expired may be deleted at any time
      SELECT * INTO m FROM {{s}}_meta x WHERE x.channel = p_channel FOR UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO {{s}}_meta (channel, epoch) VALUES (p_channel, {{s}}_new_epoch()) ON CONFLICT DO NOTHING;
    END LOOP;
    IF m.expires_at <= t THEN -- the stream has ended, and this begins the next one
      m.top_offset := 0;
      m.first_offset := 1;
      m.epoch := {{s}}_new_epoch();
      m.top_version := 0;
      m.top_version_epoch := '';
      m.history_until := t;
    END IF;
    r_epoch := m.epoch;
    IF p_version > 0 AND m.top_version > 0 AND p_version <= m.top_version
      AND (coalesce(p_version_epoch, '') = '' OR p_version_epoch = m.top_version_epoch) THEN
      r_offset := m.top_offset;
      r_reason := 'version';
      RETURN;
    END IF;
    IF m.history_until <= t THEN
      m.first_offset := m.top_offset + 1;
    END IF;
    IF p_use_delta AND m.first_offset <= m.top_offset THEN
      SELECT x.data, x.tags, coalesce(x.time_ms, extract(epoch FROM x.created_at) * 1000)::bigint INTO before_data, before_tags, before_time FROM {{s}} x
        WHERE x.channel = p_channel AND x.epoch = m.epoch AND x.channel_offset = m.top_offset AND x.channel_offset > 0 AND x.kind = 0;
    END IF;
    r_offset := m.top_offset + 1;
    m.history_ttl := coalesce(p_history_ttl, m.history_ttl);
    m.history_size := coalesce(p_history_size, m.history_size);
    life := p_meta_ttl;
    IF life IS NULL OR life >= interval '0' THEN
      life := greatest(life, p_history_ttl);
      life := greatest(CASE WHEN life > interval '0' THEN life ELSE interval '7 days' END, m.history_ttl);
    END IF;
    UPDATE {{s}}_meta x SET
      top_offset = r_offset,
      epoch = m.epoch,
      history_ttl = m.history_ttl,
      history_size = m.history_size,
      top_version = CASE WHEN p_version > 0 THEN p_version ELSE m.top_version END,
      top_version_epoch = CASE WHEN p_version > 0 THEN coalesce(p_version_epoch, '') ELSE m.top_version_epoch END,
      first_offset = greatest(m.first_offset, r_offset - m.history_size + 1),
      history_until = t + m.history_ttl,
      expires_at = {{s}}_life(x.expires_at, t, life),
      updated_at = t
      WHERE x.channel = p_channel;
  END IF;
  INSERT INTO {{s}} (channel, channel_offset, epoch, data, tags, client_id, user_id, conn_info, chan_info, prev_data,
      created_at, shard_id, use_delta, prev_tags, prev_offset, prev_time, time_ms, version, key, removed, score)
    VALUES (p_channel, r_offset, r_epoch, p_data, p_tags, p_client_id, p_user_id, p_conn_info, p_chan_info, before_data,
      t, p_shard, p_use_delta, before_tags, CASE WHEN before_time IS NOT NULL THEN m.top_offset END, before_time, p_time_ms, p_version, p_key, p_removed, p_score)
    RETURNING id INTO r_id;
  IF p_idempotency_key IS NOT NULL THEN
    INSERT INTO {{s}}_idempotency AS i (channel, idempotency_key, result_offset, result_epoch, result_id, expires_at)
      VALUES (p_channel, p_idempotency_key, r_offset, r_epoch, r_id, t + coalesce(p_idempotency_ttl, interval '5 minutes'))
      ON CONFLICT (channel, idempotency_key) DO UPDATE SET result_offset = excluded.result_offset,
        result_epoch = excluded.result_epoch, result_id = excluded.result_id, expires_at = excluded.expires_at;
  END IF;
END $$;

-- What nodes publish, many publications at a time ---------------------------------------------------------------------------

-- Publishes items without conditions (version, idempotency key) and without delta to a stream. The arrays have an element
-- per item; times to live are in microseconds, the size of the history is 0 for none. With p_shared all items have the one
-- publication that the arrays from p_data on have; arrays from p_tags on may be NULL. Offsets are returned by item.
CREATE OR REPLACE FUNCTION {{s}}_publish_many(
  p_num_shards int, p_shared boolean, p_channel text[], p_kind smallint[], p_size int[], p_ttl bigint[], p_meta_ttl bigint[], p_delta boolean[],
  p_data {{wire}}[], p_tags text[], p_client_id text[], p_user_id text[], p_conn_info {{wire}}[], p_chan_info {{wire}}[],
  p_time_ms bigint[], p_version bigint[], p_key text[], p_removed boolean[], p_score bigint[]
) RETURNS TABLE (item int, r_offset bigint, r_epoch text)
LANGUAGE plpgsql SET enable_nestloop = off AS $$
DECLARE
  t timestamptz;
BEGIN
  PERFORM {{s}}_lock_many(p_channel, p_num_shards);
  t := clock_timestamp();
  RETURN QUERY
  WITH items AS MATERIALIZED (
    SELECT i.*, row_number() OVER w AS nth, count(*) OVER (PARTITION BY i.channel, i.size > 0) AS total
      FROM unnest(p_channel, p_kind, p_size, p_ttl, p_meta_ttl, p_delta, p_data, p_tags, p_client_id, p_user_id, p_conn_info,
          p_chan_info, p_time_ms, p_version, p_key, p_removed, p_score)
        WITH ORDINALITY AS i (channel, kind, size, ttl, meta_ttl, delta, data, tags, client_id, user_id, conn_info,
          chan_info, time_ms, version, key, removed, score, n)
      WINDOW w AS (PARTITION BY i.channel, i.size > 0 ORDER BY i.n)
  ), streams AS (
    SELECT i.channel, max(i.total) AS total, max(i.nth - i.size) + 1 AS first,
        max(i.size) FILTER (WHERE i.nth = i.total) AS size,
        max(i.ttl) FILTER (WHERE i.nth = i.total) * interval '1 microsecond' AS ttl,
        max(greatest(i.ttl, i.meta_ttl)) FILTER (WHERE i.nth = i.total) * interval '1 microsecond' AS life
      FROM items i WHERE i.size > 0 GROUP BY i.channel
  ), grown AS (
    INSERT INTO {{s}}_meta AS m (channel, top_offset, epoch, history_ttl, history_size, first_offset, history_until, expires_at)
      SELECT g.channel, g.total, {{s}}_new_epoch(), g.ttl, g.size, g.first, t + g.ttl, {{s}}_life(NULL, t, g.life) FROM streams g
      ON CONFLICT (channel) DO UPDATE SET
        top_offset = CASE WHEN m.expires_at <= t THEN 0 ELSE m.top_offset END + excluded.top_offset,
        epoch = CASE WHEN m.expires_at <= t THEN excluded.epoch ELSE m.epoch END,
        top_version = CASE WHEN m.expires_at <= t THEN 0 ELSE m.top_version END,
        top_version_epoch = CASE WHEN m.expires_at <= t THEN '' ELSE m.top_version_epoch END,
        first_offset = CASE
          WHEN m.expires_at <= t THEN excluded.first_offset
          WHEN m.history_until <= t THEN m.top_offset + greatest(1, excluded.first_offset)
          ELSE greatest(m.first_offset, m.top_offset + excluded.first_offset) END,
        history_ttl = excluded.history_ttl,
        history_size = excluded.history_size,
        history_until = excluded.history_until,
        expires_at = {{s}}_life(m.expires_at, t, (excluded.expires_at - t) / 1.125),
        updated_at = t
      RETURNING m.channel, m.top_offset, m.epoch
  ), numbered AS MATERIALIZED (
    SELECT nextval('{{s}}_id_seq') AS id, o.* FROM (
      SELECT i.*, coalesce(g.top_offset - i.total + i.nth, 0) AS channel_offset, coalesce(g.epoch, '') AS epoch
        FROM items i LEFT JOIN grown g ON g.channel = i.channel AND i.size > 0 ORDER BY i.n
    ) o
  ), inserted AS (
    INSERT INTO {{s}} (id, channel, channel_offset, epoch, kind, data, tags, client_id, user_id, conn_info, chan_info,
        created_at, shard_id, use_delta, time_ms, version, key, removed, score)
      SELECT x.id, x.channel, x.channel_offset, x.epoch, x.kind,
          CASE WHEN p_shared THEN p_data[1] ELSE x.data END::{{data}},
          CASE WHEN p_shared THEN p_tags[1] ELSE x.tags END::jsonb,
          CASE WHEN p_shared THEN p_client_id[1] ELSE x.client_id END,
          CASE WHEN p_shared THEN p_user_id[1] ELSE x.user_id END,
          CASE WHEN p_shared THEN p_conn_info[1] ELSE x.conn_info END::{{data}},
          CASE WHEN p_shared THEN p_chan_info[1] ELSE x.chan_info END::{{data}},
          t, {{s}}_shard(x.channel, p_num_shards), x.delta,
          CASE WHEN p_shared THEN p_time_ms[1] ELSE x.time_ms END,
          CASE WHEN p_shared THEN p_version[1] ELSE x.version END,
          CASE WHEN p_shared THEN p_key[1] ELSE x.key END,
          CASE WHEN p_shared THEN p_removed[1] ELSE x.removed END,
          CASE WHEN p_shared THEN p_score[1] ELSE x.score END
        FROM numbered x
  )
  SELECT x.n::int, x.channel_offset, x.epoch FROM numbered x;
END $$;

-- Publishes items one after the other, with conditions. The arrays are those of {{s}}_publish_many, without p_shared, and a
-- key without idempotency is NULL.
CREATE OR REPLACE FUNCTION {{s}}_publish_each(
  p_num_shards int, p_channel text[], p_size int[], p_ttl bigint[], p_meta_ttl bigint[], p_delta boolean[],
  p_version_epoch text[], p_idempotency_key text[], p_idempotency_ttl bigint[],
  p_data {{wire}}[], p_tags text[], p_client_id text[], p_user_id text[], p_conn_info {{wire}}[], p_chan_info {{wire}}[],
  p_time_ms bigint[], p_version bigint[], p_key text[], p_removed boolean[], p_score bigint[]
) RETURNS TABLE (item int, r_offset bigint, r_epoch text, r_reason text)
LANGUAGE plpgsql AS $$
DECLARE
  i record;
  us interval := '1 microsecond';
BEGIN
  PERFORM {{s}}_lock_many(p_channel, p_num_shards);
  FOR i IN SELECT * FROM unnest(p_channel, p_size, p_ttl, p_meta_ttl, p_delta, p_version_epoch, p_idempotency_key, p_idempotency_ttl,
          p_data, p_tags, p_client_id, p_user_id, p_conn_info, p_chan_info, p_time_ms, p_version, p_key, p_removed, p_score)
        WITH ORDINALITY AS x (channel, size, ttl, meta_ttl, delta, version_epoch, idempotency_key, idempotency_ttl,
          data, tags, client_id, user_id, conn_info, chan_info, time_ms, version, key, removed, score, n)
      ORDER BY n LOOP
    item := i.n;
    SELECT p.r_offset, p.r_epoch, p.r_reason INTO r_offset, r_epoch, r_reason FROM {{s}}_put(
      {{s}}_shard(i.channel, p_num_shards), i.channel, i.size > 0, i.data::{{data}}, i.tags::jsonb,
      i.ttl * us, i.size, i.meta_ttl * us, i.version, i.version_epoch, i.idempotency_key, i.idempotency_ttl * us, i.delta,
      i.client_id, i.user_id, i.conn_info::{{data}}, i.chan_info::{{data}}, i.time_ms, i.key, i.removed, i.score) p;
    RETURN NEXT;
  END LOOP;
END $$;

-- What applications call in their own transactions --------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION {{s}}_publish(
  p_channel text, p_data {{data}}, p_tags jsonb DEFAULT NULL,
  p_history_ttl interval DEFAULT NULL, p_history_size int DEFAULT NULL, p_meta_ttl interval DEFAULT NULL,
  p_version bigint DEFAULT NULL, p_version_epoch text DEFAULT NULL,
  p_idempotency_key text DEFAULT NULL, p_idempotency_ttl interval DEFAULT NULL, p_use_delta boolean DEFAULT false,
  p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL, p_conn_info {{data}} DEFAULT NULL, p_chan_info {{data}} DEFAULT NULL,
  p_num_shards int DEFAULT NULL
) RETURNS TABLE (out_result_id bigint, out_channel_offset bigint, out_epoch text, out_suppressed boolean, out_suppress_reason text)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
BEGIN
  RETURN QUERY SELECT coalesce(p.r_id, 0), p.r_offset, p.r_epoch, p.r_reason IS NOT NULL, p.r_reason FROM {{s}}_put(
    {{s}}_lock(p_channel, p_num_shards), p_channel, true, p_data, p_tags, p_history_ttl, p_history_size, p_meta_ttl,
    p_version, p_version_epoch, nullif(p_idempotency_key, ''), p_idempotency_ttl, p_use_delta,
    p_client_id, p_user_id, p_conn_info, p_chan_info, NULL, NULL, NULL, NULL) p;
END $$;

CREATE OR REPLACE FUNCTION {{s}}_publish_strict(
  p_channel text, p_data {{data}}, p_tags jsonb DEFAULT NULL,
  p_history_ttl interval DEFAULT NULL, p_history_size int DEFAULT NULL, p_meta_ttl interval DEFAULT NULL,
  p_version bigint DEFAULT NULL, p_version_epoch text DEFAULT NULL,
  p_idempotency_key text DEFAULT NULL, p_idempotency_ttl interval DEFAULT NULL, p_use_delta boolean DEFAULT false,
  p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL, p_conn_info {{data}} DEFAULT NULL, p_chan_info {{data}} DEFAULT NULL,
  p_num_shards int DEFAULT NULL
) RETURNS TABLE (out_result_id bigint, out_channel_offset bigint, out_epoch text)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
DECLARE
  r record;
BEGIN
  SELECT * INTO r FROM {{s}}_publish(p_channel, p_data, p_tags, p_history_ttl, p_history_size, p_meta_ttl, p_version, p_version_epoch,
    p_idempotency_key, p_idempotency_ttl, p_use_delta, p_client_id, p_user_id, p_conn_info, p_chan_info, p_num_shards);
  IF r.out_suppressed THEN
    RAISE EXCEPTION 'publish suppressed: %', r.out_suppress_reason;
  END IF;
  RETURN QUERY SELECT r.out_result_id, r.out_channel_offset, r.out_epoch;
END $$;

CREATE OR REPLACE FUNCTION {{s}}_publish_event(
  p_kind smallint, p_channel text, p_client_id text, p_user_id text, p_conn_info {{data}}, p_chan_info {{data}}, p_num_shards int
) RETURNS bigint LANGUAGE plpgsql SET search_path = {{schema}} AS $$
DECLARE
  r_id bigint;
  shard smallint := {{s}}_lock(p_channel, p_num_shards);
BEGIN
  INSERT INTO {{s}} (channel, channel_offset, kind, client_id, user_id, conn_info, chan_info, created_at, shard_id)
    VALUES (p_channel, 0, p_kind, coalesce(p_client_id, ''), p_user_id, p_conn_info, p_chan_info, clock_timestamp(), shard) RETURNING id INTO r_id;
  RETURN r_id;
END $$;

CREATE OR REPLACE FUNCTION {{s}}_publish_join(
  p_channel text, p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL,
  p_conn_info {{data}} DEFAULT NULL, p_chan_info {{data}} DEFAULT NULL, p_num_shards int DEFAULT NULL
) RETURNS bigint LANGUAGE sql SET search_path = {{schema}} AS $$
  SELECT {{s}}_publish_event(1::smallint, p_channel, p_client_id, p_user_id, p_conn_info, p_chan_info, p_num_shards)
$$;

CREATE OR REPLACE FUNCTION {{s}}_publish_leave(
  p_channel text, p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL,
  p_conn_info {{data}} DEFAULT NULL, p_chan_info {{data}} DEFAULT NULL, p_num_shards int DEFAULT NULL
) RETURNS bigint LANGUAGE sql SET search_path = {{schema}} AS $$
  SELECT {{s}}_publish_event(2::smallint, p_channel, p_client_id, p_user_id, p_conn_info, p_chan_info, p_num_shards)
$$;

-- Ends the history of a channel. Rows of the last minute, which nodes may still have to deliver, stay until their partition
-- is dropped, but are no history any more.
CREATE OR REPLACE FUNCTION {{s}}_remove_history(p_channel text, p_num_shards int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
BEGIN
  UPDATE {{s}}_meta SET first_offset = top_offset + 1, updated_at = clock_timestamp() WHERE channel = p_channel;
  DELETE FROM {{s}} WHERE channel = p_channel AND kind = 0 AND channel_offset > 0 AND created_at < clock_timestamp() - interval '1 minute';
END $$;

CREATE OR REPLACE FUNCTION {{s}}_top_position(p_channel text) RETURNS TABLE (out_top_offset bigint, out_epoch text)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
BEGIN
  RETURN QUERY SELECT m.top_offset, m.epoch FROM {{s}}_meta m WHERE m.channel = p_channel AND m.expires_at > clock_timestamp();
  IF NOT FOUND THEN
    RETURN QUERY SELECT 0::bigint, ''::text;
  END IF;
END $$;
