-- Behind state_begin and position: reads entries of a map.
-- KEYS: 3 entries, 4 order, 5 dues
-- ARGV: 3 a key, or '', 4 the key behind which the page begins, '': the first, 5 how many entries,
--   '-1': all
-- Returns an array of top, the number of entries, '1' if there are more, and the values.
local entries, order = KEYS[3], KEYS[4]
if ephemeral then
  redis.call('DEL', meta) -- it was made just now
  top = '0:0:'
end
local out = {top, tostring(redis.call('HLEN', entries)), ''}
if ARGV[3] ~= '' then
  out[4] = redis.call('HGET', entries, ARGV[3]) or nil
  return out
end
local limit = tonumber(ARGV[5])
if limit == 0 then
  return out
end
local from = ARGV[4] == '' and '-' or '(' .. ARGV[4]
local page
if limit < 0 then
  page = redis.call('ZRANGEBYLEX', order, from, '+')
else
  page = redis.call('ZRANGEBYLEX', order, from, '+', 'LIMIT', 0, limit + 1)
  if #page > limit then
    out[3], page[#page] = '1', nil
  end
end
for first = 1, #page, 1000 do
  local values = redis.call('HMGET', entries, unpack(page, first, math.min(first + 999, #page)))
  for i = 1, #values do
    out[#out + 1] = values[i]
  end
end
return out
