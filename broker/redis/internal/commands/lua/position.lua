-- Reads the position of a stream, and makes the stream if there is none.
-- KEYS: 1 history, 2 meta
-- ARGV: 1 an epoch of 8 letters for a new life of the stream and, behind it, a position that
--   the stream is known to have had, offset:epoch, 2 TTL of meta in ms
-- Sets top to flag:offset:epoch; the flag is 0, or 3 if the stream had lost publications.
local history, meta = KEYS[1], KEYS[2]
local position = redis.call('HMGET', meta, 'e', 's', 'm')
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
if not position[3] then -- the position of a map lives as its changes say
  redis.call('PEXPIRE', meta, ARGV[2])
end
local top = flag .. offset .. ':' .. epoch
