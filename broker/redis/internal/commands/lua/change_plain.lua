-- Behind change_begin: changes an ephemeral map.
if not removing then
  redis.call('HSET', entries, key, value or '') -- refused if out of memory, before anybody gets the change
end
if ARGV[4] ~= '' then
  local answer = redis.pcall(verb, ARGV[4], payload)
  if type(answer) == 'table' then
    if not before and not removing then
      redis.call('HDEL', entries, key)
    end
    return answer
  end
end
apply('0')
if KEYS[3] then
  redis.call('HSET', KEYS[3], 'e', '', 's', '0')
  redis.call('PEXPIRE', KEYS[3], ARGV[7])
end
return '0:0:'
