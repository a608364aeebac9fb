-- Gives a stream another epoch, if it still has the one named. A stream whose meta was evicted stays without:
-- the next one who needs its position makes meta, and removes what is left of the history.
-- KEYS: meta
-- ARGV: 1 epoch, 2 new epoch
-- Returns the epoch that it has now, '' if there is no stream, and the offset of the newest.
local known = redis.call('HMGET', KEYS[1], 'e', 's')
local epoch = known[1] or ''
if known[1] and epoch == ARGV[1] then
  epoch = ARGV[2]
  redis.call('HSET', KEYS[1], 'e', epoch)
end
return {epoch, known[2] or '0'}
