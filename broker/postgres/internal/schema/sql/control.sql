-- Control messages between nodes. An empty node_id means all nodes.
CREATE TABLE {{c}}_messages (
  id         bigserial,
  shard_id   smallint NOT NULL DEFAULT 0,
  node_id    text NOT NULL DEFAULT '',
  data       bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX ON {{c}}_messages (shard_id, id);
CREATE TABLE {{c}}_messages_default PARTITION OF {{c}}_messages DEFAULT;

-- notify is set by the first node that listens.
CREATE TABLE {{c}}_shard_lock (
  shard_id smallint PRIMARY KEY,
  notify   boolean NOT NULL DEFAULT false
);

-- Sends a message. The shard's row stays locked until the commit, so that ids are committed in their order.
CREATE FUNCTION {{c}}_publish(p_data bytea, p_node_id text DEFAULT '', p_num_shards int DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = {{schema}} AS $$
DECLARE
  num int := coalesce(p_num_shards, (SELECT count(*) FROM {{c}}_shard_lock));
  shard smallint := 0;
  listened boolean;
  r_id bigint;
BEGIN
  IF num > 1 AND p_node_id <> '' THEN
    shard := abs(hashtext(p_node_id)::bigint) % num;
  ELSIF num > 1 THEN
    shard := txid_current() % num;
  END IF;
  SELECT l.notify INTO listened FROM {{c}}_shard_lock l WHERE l.shard_id = shard FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION '{{c}}_shard_lock has no shard %', shard;
  END IF;
  INSERT INTO {{c}}_messages (shard_id, node_id, data, created_at) VALUES (shard, coalesce(p_node_id, ''), p_data, clock_timestamp())
    RETURNING id INTO r_id;
  IF listened THEN
    PERFORM pg_notify('{{c}}_notify', '');
  END IF;
  RETURN r_id;
END $$;
