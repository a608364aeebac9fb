-- Reads the keys of a map that have expired.
-- KEYS: 1 meta, 2 dues
-- ARGV: 1 the most keys
-- Returns an array of the value of m ('': the map is ephemeral), how many ms are left until the next
-- key expires ('': none does), and the keys.
local at = now()
local keys = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', at, 'LIMIT', 0, ARGV[1])
local out = {redis.call('HGET', KEYS[1], 'm') or '', ''}
local next = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', at), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if next then
  out[2] = string.format('%.0f', next - at)
end
for i = 1, #keys do
  out[i + 2] = keys[i]
end
return out
