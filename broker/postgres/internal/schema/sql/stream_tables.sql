-- Streams of publications. {{s}} is also the outbox from which nodes deliver: the rows of a shard are committed in
-- the order of their ids, because who inserts one holds the shard's row of {{s}}_shard_lock until the commit.
CREATE TABLE {{s}} (
  id             bigserial,
  channel        text COLLATE "C" NOT NULL,
  channel_offset bigint NOT NULL,             -- 0: not part of the stream
  epoch          text NOT NULL DEFAULT '',
  kind           smallint NOT NULL DEFAULT 0, -- 0 publication, 1 join, 2 leave
  data           {{data}},
  tags           jsonb,
  client_id      text,
  user_id        text,
  conn_info      {{data}},
  chan_info      {{data}},
  prev_data      {{data}},                    -- with use_delta: the data of the publication before
  created_at     timestamptz NOT NULL DEFAULT now(),
  shard_id       smallint NOT NULL DEFAULT 0,
  use_delta      boolean,
  prev_tags      jsonb,                       -- and its tags, offset and time_ms
  prev_offset    bigint,
  prev_time      bigint,
  time_ms        bigint,                      -- Unix milliseconds; NULL: created_at
  version        bigint,
  key            text,
  removed        boolean,
  score          bigint,
  PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX ON {{s}} (shard_id, id);
CREATE INDEX ON {{s}} (channel, epoch, channel_offset) WHERE kind = 0 AND channel_offset > 0;
CREATE TABLE {{s}}_default PARTITION OF {{s}} DEFAULT;

-- The position of a stream, and which part of it is its history: the offsets from first_offset on, until history_until.
CREATE TABLE {{s}}_meta (
  channel           text COLLATE "C" PRIMARY KEY,
  top_offset        bigint NOT NULL DEFAULT 0,
  epoch             text NOT NULL DEFAULT '',
  history_ttl       interval NOT NULL DEFAULT '1 minute',
  history_size      int NOT NULL DEFAULT 100,
  top_version       bigint NOT NULL DEFAULT 0,
  top_version_epoch text NOT NULL DEFAULT '',
  expires_at        timestamptz NOT NULL DEFAULT now() + interval '7 days',
  created_at        timestamptz NOT NULL DEFAULT now(),
  updated_at        timestamptz NOT NULL DEFAULT now(),
  first_offset      bigint NOT NULL DEFAULT 1,
  history_until     timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);
CREATE INDEX ON {{s}}_meta (expires_at);

CREATE TABLE {{s}}_idempotency (
  channel         text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  result_offset   bigint NOT NULL,
  result_epoch    text NOT NULL,
  result_id       bigint NOT NULL,
  expires_at      timestamptz NOT NULL,
  PRIMARY KEY (channel, idempotency_key)
);
CREATE INDEX ON {{s}}_idempotency (expires_at);

-- notify is set by the first node that listens.
CREATE TABLE {{s}}_shard_lock (
  shard_id smallint PRIMARY KEY,
  notify   boolean NOT NULL DEFAULT false
);
