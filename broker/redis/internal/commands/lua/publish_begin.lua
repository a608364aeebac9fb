-- Publishes with history: one atomic step per channel (engines.md 8.6), or, if Redis
-- refuses a part of it, none.
-- KEYS: history, meta, result (if there is an idempotency key)
-- ARGV: 1 payload, 2 size, 3 TTL of the history in ms, 4 channel ('': do not publish),
--   5 TTL of meta in ms, 6 an epoch of 8 letters for a new life of the stream and, behind it,
--   a position that the stream is known to have had, offset:epoch,
--   and, which may be left out from the right: 7 TTL of the result in ms ('': no
--   idempotency key), 8 '1' for delta, 9 version, 10 version epoch, 11 epochs that the
--   stream had before the known one, each between two spaces ('': unknown)
-- Returns flag:offset:epoch; the flag is 0, 1 (suppressed by its key), 2 (by its version)
-- or 3 (done, and the stream had lost publications).
-- The script is publish_begin, publish_stream or publish_list, publish_send, publish_end, and
-- undo_stream or undo_list, one behind the other: a function would cost more than what it does.
-- For the same reason the verb is in front of it and no argument. Changes of maps have parts of
-- their own between these.
local call, pcall, ARGV = redis.call, redis.pcall, ARGV
local history, meta, result = KEYS[1], KEYS[2], KEYS[3]

if result then
  local cached = call('HMGET', result, 'e', 's')
  if cached[1] then
    return '1:' .. (cached[2] or '0') .. ':' .. cached[1]
  end
end

local epoch = call('HGET', meta, 'e')
if not epoch then
  epoch = string.sub(ARGV[6], 1, 8)
  call('HSET', meta, 'e', epoch)
end

local version, versions = ARGV[9], nil
if version and version ~= '0' then
  versions = call('HMGET', meta, 'v', 've', 's')
  local top = versions[1]
  if top and (ARGV[10] == '' or ARGV[10] == (versions[2] or '')) and
     -- Decimal numbers without leading zeros, compared without the limits of a double.
     (#version < #top or (#version == #top and version <= top)) then
    return '2:' .. (versions[3] or '0') .. ':' .. epoch
  end
end

-- The first write, which Redis refuses if it is out of memory, or a replica.
local offset = call('HINCRBY', meta, 's', 1)
local answer = pcall('PEXPIRE', meta, ARGV[5])
local flag = '0:'
local life = ARGV[6]
local colon = #life - #epoch -- if the epoch behind it is this one
if string.sub(life, colon + 1) == epoch and string.byte(life, colon) == 58 and offset <= tonumber(string.sub(life, 9, colon - 1))
   or ARGV[11] and string.find(ARGV[11], ' ' .. epoch .. ' ', 1, true) then
  -- The offset was given out before: the data of the server went back.
  flag, epoch = '3:', string.sub(life, 1, 8)
  call('HSET', meta, 'e', epoch)
end
local number = offset < 1e14 and tostring(offset) or string.format('%.0f', offset)
local envelope = '__p1:' .. number .. ':' .. epoch .. '__' .. ARGV[1]
