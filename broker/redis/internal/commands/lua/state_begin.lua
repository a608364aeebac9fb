-- In front of position: an ephemeral map has no position, and entries of an earlier life, whose meta
-- was evicted, are none. Meta of this life, which a read may have made, has no m then.
local ephemeral = false
local known = redis.call('HMGET', KEYS[2], 'e', 'm')
if not known[2] then
  local value = redis.call('HGET', KEYS[3], redis.call('ZRANGE', KEYS[4], 0, 0)[1] or '')
  local positioned = value and parse(value).offset ~= '0'
  ephemeral = value and not positioned and not known[1]
  if positioned then
    redis.call('DEL', KEYS[3], KEYS[4], KEYS[5])
  end
end
