-- Maps: entries by key, and the stream of their changes, which is also the outbox (see {{s}}).
CREATE TABLE {{m}}_stream (
  id             bigserial,
  channel        text COLLATE "C" NOT NULL,
  channel_offset bigint NOT NULL,             -- 0: not part of the stream (ephemeral maps)
  epoch          text NOT NULL DEFAULT '',
  key            text NOT NULL DEFAULT '',
  data           {{data}},
  tags           jsonb,
  client_id      text,
  user_id        text,
  conn_info      {{data}},
  chan_info      {{data}},
  removed        boolean NOT NULL DEFAULT false,
  prev_data      {{data}},                    -- with use_delta: the data of the entry before
  created_at     timestamptz NOT NULL DEFAULT now(),
  shard_id       smallint NOT NULL DEFAULT 0,
  kind           smallint NOT NULL DEFAULT 0, -- 0 change, 3 the map was cleared
  use_delta      boolean,
  prev_tags      jsonb,                       -- and its tags, offset and time_ms
  prev_offset    bigint,
  prev_time      bigint,
  time_ms        bigint,                      -- Unix milliseconds; NULL: created_at
  version        bigint,
  score          bigint,
  PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX ON {{m}}_stream (shard_id, id);
CREATE INDEX ON {{m}}_stream (channel, epoch, channel_offset) WHERE kind = 0 AND channel_offset > 0;
CREATE TABLE {{m}}_stream_default PARTITION OF {{m}}_stream DEFAULT;

CREATE TABLE {{m}}_state (
  channel           text COLLATE "C" NOT NULL,
  key               text COLLATE "C" NOT NULL,
  data              {{data}},
  tags              jsonb,
  client_id         text,
  user_id           text,
  conn_info         {{data}},
  chan_info         {{data}},
  key_version       bigint NOT NULL DEFAULT 0,
  key_version_epoch text NOT NULL DEFAULT '',
  key_offset        bigint NOT NULL,          -- 0: the map is ephemeral
  expires_at        timestamptz,              -- NULL: never
  created_at        timestamptz NOT NULL DEFAULT now(),
  updated_at        timestamptz NOT NULL DEFAULT now(),
  version           bigint,                   -- of the publication
  time_ms           bigint,
  score             bigint,
  PRIMARY KEY (channel, key)
);
CREATE INDEX ON {{m}}_state (expires_at) WHERE expires_at IS NOT NULL;

-- The position of a map's stream, which part of it is history, and what the last entry that was set says of its changes.
CREATE TABLE {{m}}_meta (
  channel       text COLLATE "C" PRIMARY KEY,
  top_offset    bigint NOT NULL DEFAULT 0,
  epoch         text NOT NULL DEFAULT '',
  expires_at    timestamptz,                  -- NULL: never; otherwise also not while there are entries
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now(),
  first_offset  bigint NOT NULL DEFAULT 1,
  history_until timestamptz NOT NULL DEFAULT now(),
  stream_ttl    interval NOT NULL DEFAULT '1 minute',
  stream_size   int NOT NULL DEFAULT 100,
  meta_ttl      interval                      -- NULL: for ever
) WITH (fillfactor = 70);
CREATE INDEX ON {{m}}_meta (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE {{m}}_idempotency (
  channel         text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  result_offset   bigint NOT NULL,
  result_epoch    text NOT NULL,
  result_id       bigint NOT NULL,
  expires_at      timestamptz NOT NULL,
  PRIMARY KEY (channel, idempotency_key)
);
CREATE INDEX ON {{m}}_idempotency (expires_at);

-- notify is set by the first node that listens.
CREATE TABLE {{m}}_shard_lock (
  shard_id smallint PRIMARY KEY,
  notify   boolean NOT NULL DEFAULT false
);
