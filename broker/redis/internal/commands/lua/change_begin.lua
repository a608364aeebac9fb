-- In front of publish: changes an entry of a map, or tells why not.
-- KEYS: 1 history, 2 meta, 3 entries, 4 order, 5 dues, 6 result (if there is an idempotency key)
-- ARGV: 1 to 11 as publish has them (9 is '0': versions are those of the entries), all there;
--   12 key, 13 what to do: 'set', 'if_new', 'if_exists', 'remove' or 'expire', 14 version,
--   15 expected offset ('': any), 16 expected epoch ('': any), 17 TTL of the key in ms ('': for
--   ever), 18 '1': a key that exists lives on, 19 tags as Protobuf, 20 the value of m; '': the map
--   is ephemeral, 21, which may be left out, how many entries a map has that gets no new key
-- Returns what publish does, and of an ephemeral map flag:0:. Further flags are 4 (the key
-- exists), 5 (it does not), 7 (the map is full) and 6 (not at the expected position): then an array
-- of that and the value of the entry, '' if there is none.
local entries, order, dues = KEYS[3], KEYS[4], KEYS[5]
local KEYS = {KEYS[1], KEYS[2], KEYS[6]}
local key, what, streamed = ARGV[12], ARGV[13], ARGV[20] ~= ''
local removing = what == 'remove' or what == 'expire'

if KEYS[3] then
  local cached = redis.call('HMGET', KEYS[3], 'e', 's')
  if cached[1] then
    return '1:' .. (cached[2] or '0') .. ':' .. cached[1]
  end
end

local top = ':0:'
if streamed then
  local position = redis.call('HMGET', KEYS[2], 'e', 's', 'm')
  if not position[3] then
    redis.call('DEL', entries, order, dues) -- of an earlier life, whose meta was evicted
  end
  if not position[1] then
    position = {string.sub(ARGV[6], 1, 8), '0'}
    redis.call('HSET', KEYS[2], 'e', position[1])
    redis.call('PEXPIRE', KEYS[2], ARGV[5])
  end
  top = ':' .. (position[2] or '0') .. ':' .. position[1]
end

local value = redis.call('HGET', entries, key)
local before = value and parse(value)

-- greater reports whether a decimal number without leading zeros is greater than another.
local function greater(a, b) return #a > #b or #a == #b and a > b end
-- live sets when the key expires.
local function live()
  if ARGV[17] == '' then
    redis.call('ZREM', dues, key)
  else
    redis.call('ZADD', dues, string.format('%.0f', now() + ARGV[17]), key)
  end
end

if before and not removing then
  if ARGV[14] ~= '0' and (ARGV[10] == '' or ARGV[10] == before.epoch) and not greater(ARGV[14], before.version) then
    return '2' .. top
  end
  if what == 'if_new' then
    if ARGV[18] == '1' then
      live()
    end
    return '4' .. top
  end
elseif what == 'if_exists' then
  return '5' .. top
end
if ARGV[15] ~= '' then
  local at = before and before.offset or '0'
  if at ~= ARGV[15] or ARGV[16] ~= '' and ARGV[16] ~= string.match(top, '^:%d+:(.*)$') then
    return {'6' .. top, value or ''}
  end
end
if removing and not before then
  return '5' .. top
end
if ARGV[21] and not before and redis.call('HLEN', entries) >= tonumber(ARGV[21]) then
  return '7' .. top
end
if what == 'expire' then
  local due = redis.call('ZSCORE', dues, key)
  if not due or tonumber(due) > now() then
    return '5' .. top
  end
end

local payload = ARGV[1]
if removing and ARGV[19] == '' then
  payload = payload .. before.tags
end
ARGV[1] = payload
-- apply changes the entry, by the change at this offset.
local function apply(offset)
  if removing then
    redis.call('HDEL', entries, key)
    redis.call('ZREM', order, key)
    redis.call('ZREM', dues, key)
    return
  end
  local version, epoch = ARGV[14], ARGV[10]
  if version == '0' and before then
    version, epoch = before.version, before.epoch
  end
  redis.call('HSET', entries, key, offset .. ':' .. version .. ':' .. #epoch .. ':' .. #ARGV[19] .. ':' .. epoch .. ARGV[19] .. payload)
  if not before then
    redis.call('ZADD', order, 0, key)
  end
  live()
end
-- varint writes a number as Protobuf does.
local function varint(n)
  local text = ''
  while n >= 128 do
    text = text .. string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return text .. string.char(n)
end
