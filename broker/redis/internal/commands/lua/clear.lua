-- Forgets a map, and tells its subscribers.
-- KEYS: history, meta, entries, order, dues
-- ARGV: 1 channel ('': do not publish), 2 message
-- Returns whether there was one.
local had = redis.call('DEL', unpack(KEYS))
if had > 0 and ARGV[1] ~= '' then
  redis.call(verb, ARGV[1], ARGV[2])
end
return had
