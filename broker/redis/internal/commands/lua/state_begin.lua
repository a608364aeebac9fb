-- In front of position: an ephemeral map has no position, and entries of an earlier life, whose meta
-- was evicted, are none.
local ephemeral = false
if redis.call('HEXISTS', KEYS[2], 'e') == 0 then
  local value = redis.call('HGET', KEYS[3], redis.call('ZRANGE', KEYS[4], 0, 0)[1] or '')
  ephemeral = value and parse(value).offset == '0'
  if value and not ephemeral then
    redis.call('DEL', KEYS[3], KEYS[4], KEYS[5])
  end
end
