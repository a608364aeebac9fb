-- Publishes with history: one atomic step per channel (engines.md 8.6).
-- KEYS: history, meta, result (if there is an idempotency key)
-- ARGV: 1 payload, 2 size, 3 TTL of the history in ms, 4 channel ('': do not publish),
--   5 TTL of meta in ms, 6 epoch for a new stream, 7 publish command,
--   and, which may be left out from the right: 8 TTL of the result in ms ('': no
--   idempotency key), 9 '1' for delta, 10 version, 11 version epoch
-- Returns flag:offset:epoch; the flag is 0, 1 (suppressed by its key) or 2 (by its version).
local history, meta, result = KEYS[1], KEYS[2], KEYS[3]

if result then
  local cached = redis.call('HMGET', result, 'e', 's')
  if cached[1] then
    return '1:' .. (cached[2] or '0') .. ':' .. cached[1]
  end
end

local epoch = redis.call('HGET', meta, 'e')
if not epoch then
  epoch = ARGV[6]
  redis.call('HSET', meta, 'e', epoch)
end

local version = ARGV[10]
if version and version ~= '0' then
  local known = redis.call('HMGET', meta, 'v', 've', 's')
  local top = known[1]
  if top and (ARGV[11] == '' or ARGV[11] == (known[2] or '')) and
     -- Decimal numbers without leading zeros, compared without the limits of a double.
     (#version < #top or (#version == #top and version <= top)) then
    return '2:' .. (known[3] or '0') .. ':' .. epoch
  end
  redis.call('HSET', meta, 'v', version, 've', ARGV[11])
end

local offset = redis.call('HINCRBY', meta, 's', 1)
redis.call('PEXPIRE', meta, ARGV[5])
local number = offset < 1e14 and tostring(offset) or string.format('%.0f', offset)
local envelope = '__p1:' .. number .. ':' .. epoch .. '__' .. ARGV[1]
local previous = ''
if offset == 1 then
  redis.call('DEL', history) -- of an earlier life, whose meta was evicted
elseif ARGV[9] == '1' then
  previous = newest(history)
end
append(history, number, ARGV[2], ARGV[1], envelope)
redis.call('PEXPIRE', history, ARGV[3])

if ARGV[4] ~= '' then
  if ARGV[9] == '1' then
    envelope = '__d1:' .. number .. ':' .. epoch .. ':' .. #previous .. ':' .. previous .. ':' .. #ARGV[1] .. ':' .. ARGV[1]
  end
  redis.call(ARGV[7], ARGV[4], envelope)
end
if result then
  redis.call('HSET', result, 'e', epoch, 's', number)
  redis.call('PEXPIRE', result, ARGV[8])
end
return '0:' .. number .. ':' .. epoch
