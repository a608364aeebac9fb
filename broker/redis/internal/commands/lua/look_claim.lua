-- Takes channels that are to be looked at. Nobody else gets them for a while.
-- KEYS: 1 looks
-- ARGV: 1 the most channels, 2 for how many ms
-- Returns an array of the new time and the channels.
local at = now()
local out = {string.format('%.0f', at + ARGV[2])}
for _, channel in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', at, 'LIMIT', 0, ARGV[1])) do
  redis.call('ZADD', KEYS[1], out[1], channel)
  out[#out + 1] = channel
end
return out
