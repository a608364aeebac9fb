-- Reads position and publications of a stream (engines.md 8.7), and makes the
-- stream if there is none.
-- KEYS: history, meta
-- ARGV: 1 epoch for a new stream, 2 TTL of meta in ms,
--   and for publications: 3 'f' or 'r' (reverse), 4 start, 5 limit or ''
-- Returns 0:offset:epoch, or an array of that and the publications.
local history, meta = KEYS[1], KEYS[2]
local known = redis.call('HMGET', meta, 'e', 's')
local epoch, offset = known[1], known[2] or '0'
if not epoch then
  epoch, offset = ARGV[1], '0'
  redis.call('HSET', meta, 'e', epoch)
  redis.call('DEL', history) -- of an earlier life, whose meta was evicted
end
redis.call('PEXPIRE', meta, ARGV[2])
local position = '0:' .. offset .. ':' .. epoch
if not ARGV[3] then
  return position
end
return {position, read(history, ARGV[3], ARGV[4], ARGV[5])}
