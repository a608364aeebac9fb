-- Has the maps of a channel looked at when a key expires.
-- KEYS: 1 looks, a sorted set of channels with the time of the next look
-- ARGV: 1 channel, 2 ms until then
local due, known = now() + ARGV[2], redis.call('ZSCORE', KEYS[1], ARGV[1])
if known and tonumber(known) <= due then
  due = known - 1 -- another value, so that a look that is under way does not end with its removal
end
redis.call('ZADD', KEYS[1], string.format('%.0f', due), ARGV[1])
return 1
