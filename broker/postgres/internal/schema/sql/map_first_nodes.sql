-- What nodes of the first version call, while others are newer. Their changes have no bound.
CREATE FUNCTION {{m}}_change_each(
  p_num_shards int, p_channel text[], p_map_key text[], p_ephemeral boolean[], p_key_ttl bigint[], p_stream_ttl bigint[], p_stream_size int[],
  p_meta_ttl bigint[], p_key_mode text[], p_expected_offset bigint[], p_expected_epoch text[], p_version_epoch text[],
  p_idempotency_key text[], p_idempotency_ttl bigint[], p_use_delta boolean[], p_refresh boolean[],
  p_data {{wire}}[], p_tags text[], p_client_id text[], p_user_id text[], p_conn_info {{wire}}[], p_chan_info {{wire}}[],
  p_time_ms bigint[], p_version bigint[], p_removed boolean[], p_score bigint[]
) RETURNS TABLE (item int, r_offset bigint, r_epoch text, r_reason text, c_offset bigint, c_data {{data}}, c_tags jsonb,
  c_client_id text, c_user_id text, c_conn_info {{data}}, c_chan_info {{data}}, c_time_ms bigint, c_version bigint, c_score bigint)
LANGUAGE sql AS $$
  SELECT * FROM {{m}}_change_each(p_num_shards, p_channel, p_map_key, p_ephemeral, p_key_ttl, p_stream_ttl, p_stream_size, p_meta_ttl, p_key_mode,
    p_expected_offset, p_expected_epoch, p_version_epoch, p_idempotency_key, p_idempotency_ttl, p_use_delta, p_refresh, NULL,
    p_data, p_tags, p_client_id, p_user_id, p_conn_info, p_chan_info, p_time_ms, p_version, p_removed, p_score)
$$;
