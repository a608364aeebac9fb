-- Behind change_begin: changes an ephemeral map.
if ARGV[4] ~= '' then
  local answer = redis.pcall(verb, ARGV[4], payload)
  if type(answer) == 'table' then
    return answer
  end
end
apply('0')
if KEYS[3] then
  redis.call('HSET', KEYS[3], 'e', '', 's', '0')
  redis.call('PEXPIRE', KEYS[3], ARGV[7])
end
return '0:0:'
