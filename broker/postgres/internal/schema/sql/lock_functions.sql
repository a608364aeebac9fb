-- The shard of a channel.
CREATE OR REPLACE FUNCTION {{b}}_shard(p_channel text, p_num_shards int) RETURNS smallint
LANGUAGE sql IMMUTABLE AS $$
  SELECT (abs(hashtext(p_channel)::bigint) % p_num_shards)::smallint
$$;

-- Locks the shard of a channel until the transaction ends. Returns its number, and tells nodes that listen.
CREATE OR REPLACE FUNCTION {{b}}_lock(p_channel text, p_num_shards int) RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
  num int := coalesce(p_num_shards, (SELECT count(*) FROM {{b}}_shard_lock));
  shard smallint;
  listened boolean;
BEGIN
  IF num <= 0 THEN
    RAISE EXCEPTION '{{b}}_shard_lock is empty: no node has initialized it';
  END IF;
  shard := {{b}}_shard(p_channel, num);
  SELECT l.notify INTO listened FROM {{b}}_shard_lock l WHERE l.shard_id = shard FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION '{{b}}_shard_lock has no shard %: p_num_shards is not that of the nodes', shard;
  END IF;
  IF listened THEN
    PERFORM pg_notify('{{notify}}', '');
  END IF;
  RETURN shard;
END $$;

-- The time at which something ends that lives for p_ttl from p_now on. It is up to a quarter later, so that the times of
-- busy channels, which are in an index, rarely change. Negative: never. NULL: NULL.
CREATE OR REPLACE FUNCTION {{b}}_life(p_old timestamptz, p_now timestamptz, p_ttl interval) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN p_ttl IS NULL THEN NULL
    WHEN p_ttl < interval '0' THEN timestamptz 'infinity'
    WHEN p_old >= p_now + p_ttl AND p_old <= p_now + p_ttl * 1.25 THEN p_old
    ELSE p_now + p_ttl * 1.125
  END
$$;

CREATE OR REPLACE FUNCTION {{b}}_new_epoch() RETURNS text
LANGUAGE sql VOLATILE AS $$ SELECT left(gen_random_uuid()::text, 8) $$;

-- Locks the shards of channels, in the order of their numbers, and tells nodes that listen.
CREATE OR REPLACE FUNCTION {{b}}_lock_many(p_channels text[], p_num_shards int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  shards smallint[] := ARRAY(SELECT DISTINCT {{b}}_shard(c, p_num_shards) AS shard FROM unnest(p_channels) c ORDER BY shard);
  locked int := 0;
  listened boolean := false;
  l record;
BEGIN
  FOR l IN SELECT notify FROM {{b}}_shard_lock WHERE shard_id = ANY (shards) ORDER BY shard_id FOR UPDATE LOOP
    locked := locked + 1;
    listened := listened OR l.notify;
  END LOOP;
  IF locked < cardinality(shards) THEN
    RAISE EXCEPTION '{{b}}_shard_lock has % of the shards %', locked, shards;
  END IF;
  IF listened THEN
    PERFORM pg_notify('{{notify}}', '');
  END IF;
END $$;
