-- Returns the row of a map that is about to change or was read, locked. If there is none, or it has ended, the map begins
-- a new life, for p_ttl unless it changes. A channel whose empty stream was read has the epoch of that.
CREATE OR REPLACE FUNCTION {{m}}_begin(p_channel text, p_now timestamptz, p_ttl interval) RETURNS {{m}}_meta
LANGUAGE plpgsql AS $$
DECLARE
  m {{m}}_meta%ROWTYPE;
  known text;
BEGIN
  SELECT * INTO m FROM {{m}}_meta x WHERE x.channel = p_channel FOR UPDATE;
  IF FOUND AND (m.expires_at IS NULL OR m.expires_at > p_now OR EXISTS (SELECT FROM {{m}}_state e WHERE e.channel = p_channel)) THEN
    RETURN m;
  END IF;
  IF NOT FOUND OR m.channel IS NULL THEN
    DELETE FROM {{s}}_meta x WHERE x.channel = p_channel AND x.top_offset = 0 AND x.expires_at > p_now RETURNING x.epoch INTO known;
  END IF;
  DELETE FROM {{m}}_meta x WHERE x.channel = p_channel AND x.epoch = m.epoch;
  DELETE FROM {{m}}_state e WHERE e.channel = p_channel AND e.key_offset > 0;
  INSERT INTO {{m}}_meta (channel, epoch, expires_at, meta_ttl) VALUES (p_channel, coalesce(known, {{m}}_new_epoch()), p_now + p_ttl, p_ttl)
    ON CONFLICT DO NOTHING;
  SELECT * INTO m FROM {{m}}_meta x WHERE x.channel = p_channel FOR UPDATE;
  RETURN m;
END $$;

-- Returns how many entries a map has whose shard is locked. They are counted once. A map without a row, which an ephemeral one
-- may be, gets one.
CREATE OR REPLACE FUNCTION {{m}}_entries(p_channel text, p_now timestamptz) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  m {{m}}_meta%ROWTYPE := {{m}}_begin(p_channel, p_now, interval '1 hour');
BEGIN
  IF m.entries IS NULL THEN
    SELECT count(*) INTO m.entries FROM {{m}}_state e WHERE e.channel = p_channel;
    UPDATE {{m}}_meta x SET entries = m.entries WHERE x.channel = p_channel;
  END IF;
  RETURN m.entries;
END $$;

-- Sets or removes an entry of a channel whose shard is locked. NULL as p_key_ttl and p_meta_ttl means for ever, as time to
-- live and size of the stream that the map keeps its own, as p_max_entries without a bound.
CREATE OR REPLACE FUNCTION {{m}}_change(
  p_shard smallint, p_channel text, p_key text, p_removed boolean, p_ephemeral boolean, p_expired_is_gone boolean,
  p_data {{data}}, p_tags jsonb, p_key_ttl interval, p_stream_ttl interval, p_stream_size int, p_meta_ttl interval,
  p_key_mode text, p_expected_offset bigint, p_expected_epoch text, p_version bigint, p_version_epoch text,
  p_idempotency_key text, p_idempotency_ttl interval, p_use_delta boolean, p_refresh boolean,
  p_client_id text, p_user_id text, p_conn_info {{data}}, p_chan_info {{data}}, p_time_ms bigint, p_score bigint, p_max_entries int,
  OUT r_id bigint, OUT r_offset bigint, OUT r_epoch text, OUT r_reason text, OUT r_current {{m}}_state
) LANGUAGE plpgsql AS $$
DECLARE
  t timestamptz := clock_timestamp();
  m {{m}}_meta%ROWTYPE;
  e {{m}}_state%ROWTYPE;
  found_entry boolean;
  added int; -- entries
BEGIN
  IF p_idempotency_key IS NOT NULL THEN
    SELECT i.result_id, i.result_offset, i.result_epoch, 'idempotency' INTO r_id, r_offset, r_epoch, r_reason
      FROM {{m}}_idempotency i
      WHERE i.channel = p_channel AND i.idempotency_key = p_idempotency_key AND i.expires_at > t;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  r_offset := 0;
  r_epoch := '';
  IF NOT p_ephemeral THEN
    m := {{m}}_begin(p_channel, t, coalesce(p_meta_ttl, interval '7 days'));
    r_offset := m.top_offset;
    r_epoch := m.epoch;
  END IF;
  SELECT * INTO e FROM {{m}}_state x WHERE x.channel = p_channel AND x.key = p_key FOR UPDATE;
  found_entry := FOUND;
  IF found_entry AND p_expired_is_gone AND e.expires_at <= t THEN
    found_entry := false;
    e := NULL;
  END IF;

  r_reason := CASE
    WHEN p_removed THEN NULL
    WHEN found_entry AND p_version > 0 AND p_version <= e.key_version
      AND (coalesce(p_version_epoch, '') = '' OR p_version_epoch = e.key_version_epoch) THEN 'version'
    WHEN found_entry AND p_key_mode = 'if_new' THEN 'key_exists'
    WHEN NOT found_entry AND p_key_mode = 'if_exists' THEN 'key_not_found'
  END;
  IF r_reason = 'key_exists' AND p_refresh THEN
    UPDATE {{m}}_state x SET expires_at = t + p_key_ttl, updated_at = t WHERE x.channel = p_channel AND x.key = p_key;
    UPDATE {{m}}_meta x SET expires_at = {{m}}_life(x.expires_at, t, p_meta_ttl) WHERE x.channel = p_channel AND NOT p_ephemeral;
  END IF;
  IF r_reason IS NULL AND (p_expected_offset <> coalesce(e.key_offset, 0) OR nullif(p_expected_epoch, '') <> m.epoch) THEN
    r_reason := 'position_mismatch';
    r_current := e;
  ELSIF r_reason IS NULL AND p_removed AND NOT found_entry THEN
    r_reason := 'key_not_found';
  ELSIF r_reason IS NULL AND NOT found_entry AND p_max_entries > 0 AND {{m}}_entries(p_channel, t) >= p_max_entries THEN
    r_reason := 'map_full';
  END IF;
  IF r_reason IS NOT NULL THEN
    RETURN;
  END IF;

  added := CASE WHEN p_removed THEN -1 WHEN found_entry THEN 0 ELSE 1 END;
  IF NOT p_ephemeral THEN
    r_offset := m.top_offset + 1;
    m.stream_ttl := coalesce(p_stream_ttl, m.stream_ttl);
    m.stream_size := coalesce(p_stream_size, m.stream_size);
    UPDATE {{m}}_meta x SET
      top_offset = r_offset,
      first_offset = greatest(CASE WHEN x.history_until <= t THEN r_offset ELSE x.first_offset END, r_offset - m.stream_size + 1),
      history_until = t + m.stream_ttl,
      stream_ttl = CASE WHEN p_removed THEN x.stream_ttl ELSE m.stream_ttl END,
      stream_size = CASE WHEN p_removed THEN x.stream_size ELSE m.stream_size END,
      meta_ttl = CASE WHEN p_removed THEN x.meta_ttl ELSE p_meta_ttl END,
      expires_at = {{m}}_life(x.expires_at, t, p_meta_ttl),
      entries = x.entries + added,
      updated_at = t
      WHERE x.channel = p_channel;
  ELSIF added <> 0 AND (SELECT true FROM {{m}}_meta x WHERE x.channel = p_channel AND x.entries IS NOT NULL) THEN
    UPDATE {{m}}_meta x SET entries = x.entries + added WHERE x.channel = p_channel AND x.entries IS NOT NULL;
  END IF;
  IF p_removed THEN
    DELETE FROM {{m}}_state x WHERE x.channel = p_channel AND x.key = p_key;
  ELSE
    INSERT INTO {{m}}_state AS x (channel, key, data, tags, client_id, user_id, conn_info, chan_info, key_version, key_version_epoch,
        key_offset, expires_at, version, time_ms, score)
      VALUES (p_channel, p_key, p_data, p_tags, p_client_id, p_user_id, p_conn_info, p_chan_info,
        coalesce(p_version, 0), CASE WHEN p_version > 0 THEN coalesce(p_version_epoch, '') ELSE '' END,
        r_offset, t + p_key_ttl, p_version, p_time_ms, p_score)
      ON CONFLICT (channel, key) DO UPDATE SET data = excluded.data, tags = excluded.tags,
        client_id = excluded.client_id, user_id = excluded.user_id, conn_info = excluded.conn_info, chan_info = excluded.chan_info,
        key_version = CASE WHEN p_version > 0 THEN excluded.key_version ELSE x.key_version END,
        key_version_epoch = CASE WHEN p_version > 0 THEN excluded.key_version_epoch ELSE x.key_version_epoch END,
        key_offset = excluded.key_offset, expires_at = excluded.expires_at, updated_at = t,
        version = excluded.version, time_ms = excluded.time_ms, score = excluded.score;
  END IF;
  INSERT INTO {{m}}_stream (channel, channel_offset, epoch, key, data, tags, client_id, user_id, conn_info, chan_info, removed,
      created_at, shard_id, use_delta, prev_data, prev_tags, prev_offset, prev_time, time_ms, version, score)
    VALUES (p_channel, r_offset, r_epoch, p_key, p_data, CASE WHEN p_removed THEN coalesce(p_tags, e.tags) ELSE p_tags END,
      p_client_id, p_user_id, p_conn_info, p_chan_info, p_removed, t, p_shard, p_use_delta AND NOT p_ephemeral AND found_entry,
      CASE WHEN p_use_delta AND NOT p_ephemeral THEN e.data END,
      CASE WHEN p_use_delta AND NOT p_ephemeral THEN e.tags END,
      CASE WHEN p_use_delta AND NOT p_ephemeral THEN e.key_offset END,
      CASE WHEN p_use_delta AND NOT p_ephemeral THEN coalesce(e.time_ms, (extract(epoch FROM e.updated_at) * 1000)::bigint) END,
      p_time_ms, p_version, p_score)
    RETURNING id INTO r_id;
  IF p_idempotency_key IS NOT NULL THEN
    INSERT INTO {{m}}_idempotency AS i (channel, idempotency_key, result_offset, result_epoch, result_id, expires_at)
      VALUES (p_channel, p_idempotency_key, r_offset, r_epoch, r_id, t + coalesce(p_idempotency_ttl, interval '5 minutes'))
      ON CONFLICT (channel, idempotency_key) DO UPDATE SET result_offset = excluded.result_offset,
        result_epoch = excluded.result_epoch, result_id = excluded.result_id, expires_at = excluded.expires_at;
  END IF;
END $$;

-- What nodes change, many changes at a time. The arrays have an element per change. Times to live are in microseconds, 0 for
-- ever; without an expected position or an idempotency key, theirs are NULL. A position mismatch returns the entry.
CREATE OR REPLACE FUNCTION {{m}}_change_each(
  p_num_shards int, p_channel text[], p_map_key text[], p_ephemeral boolean[], p_key_ttl bigint[], p_stream_ttl bigint[], p_stream_size int[],
  p_meta_ttl bigint[], p_key_mode text[], p_expected_offset bigint[], p_expected_epoch text[], p_version_epoch text[],
  p_idempotency_key text[], p_idempotency_ttl bigint[], p_use_delta boolean[], p_refresh boolean[], p_max_entries int[],
  p_data {{wire}}[], p_tags text[], p_client_id text[], p_user_id text[], p_conn_info {{wire}}[], p_chan_info {{wire}}[],
  p_time_ms bigint[], p_version bigint[], p_removed boolean[], p_score bigint[]
) RETURNS TABLE (item int, r_offset bigint, r_epoch text, r_reason text, c_offset bigint, c_data {{data}}, c_tags jsonb,
  c_client_id text, c_user_id text, c_conn_info {{data}}, c_chan_info {{data}}, c_time_ms bigint, c_version bigint, c_score bigint)
LANGUAGE plpgsql AS $$
DECLARE
  i record;
  c {{m}}_state%ROWTYPE;
  us interval := '1 microsecond';
BEGIN
  PERFORM {{m}}_lock_many(p_channel, p_num_shards);
  FOR i IN SELECT * FROM unnest(p_channel, p_map_key, p_ephemeral, p_key_ttl, p_stream_ttl, p_stream_size, p_meta_ttl, p_key_mode,
          p_expected_offset, p_expected_epoch, p_version_epoch, p_idempotency_key, p_idempotency_ttl, p_use_delta, p_refresh, p_max_entries,
          p_data, p_tags, p_client_id, p_user_id, p_conn_info, p_chan_info, p_time_ms, p_version, p_removed, p_score)
        WITH ORDINALITY AS x (channel, key, ephemeral, key_ttl, stream_ttl, stream_size, meta_ttl, key_mode,
          expected_offset, expected_epoch, version_epoch, idempotency_key, idempotency_ttl, use_delta, refresh, max_entries,
          data, tags, client_id, user_id, conn_info, chan_info, time_ms, version, removed, score, n)
      ORDER BY n LOOP
    item := i.n;
    SELECT p.r_offset, p.r_epoch, p.r_reason, (p.r_current).key_offset, (p.r_current).data, (p.r_current).tags,
        (p.r_current).client_id, (p.r_current).user_id, (p.r_current).conn_info, (p.r_current).chan_info,
        (p.r_current).time_ms, (p.r_current).version, (p.r_current).score
      INTO r_offset, r_epoch, r_reason, c_offset, c_data, c_tags, c_client_id, c_user_id, c_conn_info, c_chan_info, c_time_ms, c_version, c_score
      FROM {{m}}_change(
        {{m}}_shard(i.channel, p_num_shards), i.channel, i.key, coalesce(i.removed, false), i.ephemeral, false,
        i.data::{{data}}, i.tags::jsonb, nullif(i.key_ttl, 0) * us, i.stream_ttl * us, i.stream_size, nullif(i.meta_ttl, 0) * us,
        i.key_mode, i.expected_offset, i.expected_epoch, i.version, i.version_epoch, i.idempotency_key, i.idempotency_ttl * us,
        i.use_delta, i.refresh, i.client_id, i.user_id, i.conn_info::{{data}}, i.chan_info::{{data}}, i.time_ms, i.score,
        i.max_entries) p;
    RETURN NEXT;
  END LOOP;
END $$;

-- Makes sure that a map has a row, for p_ttl (microseconds) unless it changes.
CREATE OR REPLACE FUNCTION {{m}}_touch(p_channel text, p_ttl bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM {{m}}_begin(p_channel, clock_timestamp(), p_ttl * interval '1 microsecond');
END $$;

-- Forgets a map. Nodes are told by a row of kind 3.
CREATE OR REPLACE FUNCTION {{m}}_clear(p_channel text, p_num_shards int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
DECLARE
  shard smallint := {{m}}_lock(p_channel, p_num_shards);
  rows int;
  entries int;
BEGIN
  DELETE FROM {{m}}_meta WHERE channel = p_channel;
  GET DIAGNOSTICS rows = ROW_COUNT;
  DELETE FROM {{m}}_state WHERE channel = p_channel;
  GET DIAGNOSTICS entries = ROW_COUNT;
  IF rows + entries > 0 THEN
    INSERT INTO {{m}}_stream (channel, channel_offset, kind, created_at, shard_id) VALUES (p_channel, 0, 3, clock_timestamp(), shard);
  END IF;
END $$;

-- Removes the entries of channels that have expired, p_limit at most. Their shards are locked.
CREATE OR REPLACE FUNCTION {{m}}_expire(p_channels text[], p_limit int, p_num_shards int, p_meta_ttl interval)
RETURNS TABLE (out_channel text, out_key text, out_offset bigint, out_epoch text)
LANGUAGE plpgsql AS $$
DECLARE
  t timestamptz := clock_timestamp();
  e record;
BEGIN
  FOR e IN SELECT * FROM {{m}}_state x WHERE x.channel = ANY (p_channels) AND x.expires_at <= t
      ORDER BY x.expires_at, x.key LIMIT p_limit FOR UPDATE LOOP
    DELETE FROM {{m}}_state x WHERE x.channel = e.channel AND x.key = e.key;
    out_channel := e.channel;
    out_key := e.key;
    out_offset := 0;
    out_epoch := '';
    IF e.key_offset > 0 THEN
      UPDATE {{m}}_meta x SET
        top_offset = x.top_offset + 1,
        first_offset = greatest(CASE WHEN x.history_until <= t THEN x.top_offset + 1 ELSE x.first_offset END, x.top_offset + 2 - x.stream_size),
        history_until = t + x.stream_ttl,
        expires_at = greatest(x.expires_at, {{m}}_life(x.expires_at, t, coalesce(p_meta_ttl, x.meta_ttl))),
        entries = x.entries - 1,
        updated_at = t
        WHERE x.channel = e.channel
        RETURNING x.top_offset, x.epoch INTO out_offset, out_epoch;
      CONTINUE WHEN NOT FOUND;
    ELSE
      UPDATE {{m}}_meta x SET entries = x.entries - 1 WHERE x.channel = e.channel AND x.entries IS NOT NULL;
    END IF;
    INSERT INTO {{m}}_stream (channel, channel_offset, epoch, key, tags, removed, created_at, shard_id)
      VALUES (e.channel, out_offset, out_epoch, e.key, e.tags, true, t, {{m}}_shard(e.channel, p_num_shards));
    RETURN NEXT;
  END LOOP;
END $$;

-- The same for the channels of one shard, which nodes call.
CREATE OR REPLACE FUNCTION {{m}}_expire_shard(p_channels text[], p_limit int, p_num_shards int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  removed int;
BEGIN
  PERFORM {{m}}_lock_many(p_channels, p_num_shards);
  SELECT count(*) INTO removed FROM {{m}}_expire(p_channels, p_limit, p_num_shards, NULL);
  RETURN removed;
END $$;

-- What applications call in their own transactions --------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION {{m}}_publish(
  p_channel text, p_key text, p_data {{data}}, p_tags jsonb DEFAULT NULL,
  p_key_ttl interval DEFAULT NULL, p_meta_ttl interval DEFAULT NULL, p_key_mode text DEFAULT NULL,
  p_expected_offset bigint DEFAULT NULL, p_expected_epoch text DEFAULT NULL,
  p_key_version bigint DEFAULT NULL, p_key_version_epoch text DEFAULT NULL,
  p_idempotency_key text DEFAULT NULL, p_idempotency_ttl interval DEFAULT NULL, p_use_delta boolean DEFAULT false,
  p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL, p_conn_info {{data}} DEFAULT NULL, p_chan_info {{data}} DEFAULT NULL,
  p_refresh_ttl_on_suppress boolean DEFAULT false, p_num_shards int DEFAULT NULL
) RETURNS TABLE (out_result_id bigint, out_channel_offset bigint, out_epoch text, out_suppressed boolean, out_suppress_reason text,
  out_current_data {{data}}, out_current_offset bigint)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
BEGIN
  IF p_meta_ttl IS NOT NULL AND p_key_ttl IS NULL THEN
    RAISE EXCEPTION 'p_meta_ttl needs p_key_ttl: entries that never expire keep their map';
  ELSIF p_meta_ttl < p_key_ttl THEN
    RAISE EXCEPTION 'p_meta_ttl is less than p_key_ttl';
  ELSIF coalesce(p_key, '') = '' THEN
    RAISE EXCEPTION 'p_key is empty';
  ELSIF coalesce(p_key_mode, '') NOT IN ('', 'if_new', 'if_exists') THEN
    RAISE EXCEPTION 'p_key_mode is %, not if_new or if_exists', p_key_mode;
  END IF;
  RETURN QUERY SELECT coalesce(c.r_id, 0), c.r_offset, c.r_epoch, c.r_reason IS NOT NULL, c.r_reason, (c.r_current).data, (c.r_current).key_offset
    FROM {{m}}_change({{m}}_lock(p_channel, p_num_shards), p_channel, p_key, false, false, false, p_data, p_tags, p_key_ttl, NULL, NULL,
      p_meta_ttl, p_key_mode, p_expected_offset, p_expected_epoch, p_key_version, p_key_version_epoch,
      nullif(p_idempotency_key, ''), p_idempotency_ttl, p_use_delta, p_refresh_ttl_on_suppress,
      p_client_id, p_user_id, p_conn_info, p_chan_info, NULL, NULL, NULL) c;
END $$;

CREATE OR REPLACE FUNCTION {{m}}_publish_strict(
  p_channel text, p_key text, p_data {{data}}, p_tags jsonb DEFAULT NULL,
  p_key_ttl interval DEFAULT NULL, p_meta_ttl interval DEFAULT NULL, p_key_mode text DEFAULT NULL,
  p_expected_offset bigint DEFAULT NULL, p_expected_epoch text DEFAULT NULL,
  p_key_version bigint DEFAULT NULL, p_key_version_epoch text DEFAULT NULL,
  p_idempotency_key text DEFAULT NULL, p_idempotency_ttl interval DEFAULT NULL, p_use_delta boolean DEFAULT false,
  p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL, p_conn_info {{data}} DEFAULT NULL, p_chan_info {{data}} DEFAULT NULL,
  p_refresh_ttl_on_suppress boolean DEFAULT false, p_num_shards int DEFAULT NULL
) RETURNS TABLE (out_result_id bigint, out_channel_offset bigint, out_epoch text)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
DECLARE
  r record;
BEGIN
  SELECT * INTO r FROM {{m}}_publish(p_channel, p_key, p_data, p_tags, p_key_ttl, p_meta_ttl, p_key_mode, p_expected_offset, p_expected_epoch,
    p_key_version, p_key_version_epoch, p_idempotency_key, p_idempotency_ttl, p_use_delta,
    p_client_id, p_user_id, p_conn_info, p_chan_info, p_refresh_ttl_on_suppress, p_num_shards);
  IF r.out_suppressed THEN
    RAISE EXCEPTION USING
      MESSAGE = 'publish suppressed: ' || r.out_suppress_reason,
      DETAIL = coalesce({{show}}, ''),
      ERRCODE = CASE r.out_suppress_reason
        WHEN 'key_exists' THEN 'unique_violation'
        WHEN 'idempotency' THEN 'unique_violation'
        WHEN 'key_not_found' THEN 'no_data_found'
        ELSE 'serialization_failure' END;
  END IF;
  RETURN QUERY SELECT r.out_result_id, r.out_channel_offset, r.out_epoch;
END $$;

CREATE OR REPLACE FUNCTION {{m}}_remove(
  p_channel text, p_key text, p_meta_ttl interval DEFAULT NULL,
  p_expected_offset bigint DEFAULT NULL, p_expected_epoch text DEFAULT NULL,
  p_idempotency_key text DEFAULT NULL, p_idempotency_ttl interval DEFAULT NULL,
  p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL, p_num_shards int DEFAULT NULL
) RETURNS TABLE (out_result_id bigint, out_channel_offset bigint, out_epoch text, out_suppressed boolean, out_suppress_reason text,
  out_current_data {{data}}, out_current_offset bigint)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
BEGIN
  RETURN QUERY SELECT coalesce(c.r_id, 0), c.r_offset, c.r_epoch, c.r_reason IS NOT NULL, c.r_reason, (c.r_current).data, (c.r_current).key_offset
    FROM {{m}}_change({{m}}_lock(p_channel, p_num_shards), p_channel, p_key, true, false, true, NULL, NULL, NULL, NULL, NULL,
      p_meta_ttl, NULL, p_expected_offset, p_expected_epoch, NULL, NULL,
      nullif(p_idempotency_key, ''), p_idempotency_ttl, false, false, p_client_id, p_user_id, NULL, NULL, NULL, NULL, NULL) c;
END $$;

CREATE OR REPLACE FUNCTION {{m}}_remove_strict(
  p_channel text, p_key text, p_meta_ttl interval DEFAULT NULL,
  p_expected_offset bigint DEFAULT NULL, p_expected_epoch text DEFAULT NULL,
  p_idempotency_key text DEFAULT NULL, p_idempotency_ttl interval DEFAULT NULL,
  p_client_id text DEFAULT NULL, p_user_id text DEFAULT NULL, p_num_shards int DEFAULT NULL
) RETURNS TABLE (out_result_id bigint, out_channel_offset bigint, out_epoch text)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
DECLARE
  r record;
BEGIN
  SELECT * INTO r FROM {{m}}_remove(p_channel, p_key, p_meta_ttl, p_expected_offset, p_expected_epoch,
    p_idempotency_key, p_idempotency_ttl, p_client_id, p_user_id, p_num_shards);
  IF r.out_suppressed THEN
    RAISE EXCEPTION USING MESSAGE = 'remove suppressed: ' || r.out_suppress_reason, ERRCODE = 'no_data_found';
  END IF;
  RETURN QUERY SELECT r.out_result_id, r.out_channel_offset, r.out_epoch;
END $$;

CREATE OR REPLACE FUNCTION {{m}}_expire_keys(
  p_batch_size int DEFAULT 1000, p_num_shards int DEFAULT NULL, p_meta_ttl interval DEFAULT NULL, p_channel text DEFAULT NULL
) RETURNS TABLE (out_channel text, out_key text, out_offset bigint, out_epoch text)
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
DECLARE
  num int := coalesce(p_num_shards, (SELECT count(*) FROM {{m}}_shard_lock));
  channels text[] := ARRAY(
    SELECT DISTINCT d.channel FROM (
      SELECT x.channel FROM {{m}}_state x
        WHERE x.expires_at <= clock_timestamp() AND (p_channel IS NULL OR x.channel = p_channel)
        ORDER BY x.expires_at LIMIT p_batch_size
    ) d);
BEGIN
  IF num <= 0 THEN
    RAISE EXCEPTION '{{m}}_shard_lock is empty: no node has initialized it';
  END IF;
  PERFORM {{m}}_lock_many(channels, num);
  RETURN QUERY SELECT * FROM {{m}}_expire(channels, p_batch_size, num, p_meta_ttl);
END $$;
