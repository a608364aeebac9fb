-- Reads what a stream holds at an offset, to see whether it is what was delivered.
-- KEYS: history, meta
-- ARGV: 1 offset
-- Returns epoch, offset of the newest, and the entry or ''.
local known = redis.call('HMGET', KEYS[2], 'e', 's')
local epoch, top = known[1] or '', known[2] or '0'
local entry = ''
if tonumber(top) >= tonumber(ARGV[1]) then
  entry = at(KEYS[1], ARGV[1], top)
end
return {epoch, top, entry}
