-- Reads position and publications of a stream (engines.md 8.7), and makes the
-- stream if there is none.
-- KEYS: history, meta
-- ARGV: 1 an epoch of 8 letters for a new life of the stream and, behind it, a position that
--   the stream is known to have had, offset:epoch, 2 TTL of meta in ms,
--   and for publications: 3 'f' or 'r' (reverse), 4 start, 5 limit or ''
-- Returns flag:offset:epoch, or an array of that and the publications; the flag is 0, or
-- 3 if the stream had lost publications.
local history, meta = KEYS[1], KEYS[2]
local position = redis.call('HMGET', meta, 'e', 's')
local epoch, offset, flag = position[1], position[2] or '0', '0:'
local life = ARGV[1]
local colon = #life - #(epoch or '') -- if the epoch behind it is this one
if not epoch then
  epoch, offset = string.sub(life, 1, 8), '0'
  redis.call('HSET', meta, 'e', epoch)
  if redis.call('TYPE', history).ok == kind then
    redis.call('DEL', history) -- of an earlier life, whose meta was evicted
  end
elseif string.sub(life, colon + 1) == epoch and string.byte(life, colon) == 58 and
       tonumber(offset) < tonumber(string.sub(life, 9, colon - 1)) then
  -- Later offsets were given out before: the data of the server went back.
  flag, epoch = '3:', string.sub(life, 1, 8)
  redis.call('HSET', meta, 'e', epoch)
end
redis.call('PEXPIRE', meta, ARGV[2])
local top = flag .. offset .. ':' .. epoch
if not ARGV[3] then
  return top
end
return {top, read(history, ARGV[3], ARGV[4], ARGV[5])}
