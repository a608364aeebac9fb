-- Publishes without history, at most once per idempotency key (engines.md 8.6).
-- KEYS: result
-- ARGV: 1 payload, 2 channel ('': do not publish), 3 TTL of the result in ms, 4 publish command
-- Returns flag:offset:epoch as publish does: the key may have been used with history.
local cached = redis.call('HMGET', KEYS[1], 'e', 's')
if cached[1] then
  return '1:' .. (cached[2] or '0') .. ':' .. cached[1]
end
local function try(...)
  local answer = redis.pcall(...)
  return type(answer) == 'table' and answer.err and answer or nil
end
local failure = try('HSET', KEYS[1], 'e', '', 's', '0') or try('PEXPIRE', KEYS[1], ARGV[3])
if ARGV[2] ~= '' then
  failure = failure or try(ARGV[4], ARGV[2], ARGV[1])
end
if failure then -- nobody got it: the next one with this key is not a second one
  redis.pcall('DEL', KEYS[1])
  return failure
end
return '0:0:'
