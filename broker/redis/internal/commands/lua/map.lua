-- What the scripts of maps share.
-- entries is a hash: a key has the value offset:version:V:T: and behind that the version epoch of
-- V bytes, the tags of T bytes as Protobuf, and the publication that set the entry. In a map
-- without stream (an ephemeral one) the offset is 0.
-- order is a sorted set of all keys, all with the score 0: pages are in the order of the keys.
-- dues is a sorted set of the keys that expire, with the time in ms by the clock of Redis.
-- meta is that of the stream. Its field m is there in maps alone: size, TTL in ms and TTL of meta
-- in ms of the last entry that was set, for the removal of those that expire.

-- parse takes a value of entries apart.
local function parse(value)
  local offset, version, epochs, tags, at = string.match(value, '^(%d+):(%d+):(%d+):(%d+):()')
  local from = at + epochs
  return {
    offset = offset, version = version, epoch = string.sub(value, at, from - 1),
    tags = string.sub(value, from, from + tags - 1), payload = string.sub(value, from + tags),
  }
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
