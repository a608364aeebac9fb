-- Completes the stream and publishes. Commands may be refused although others were done, PUBLISH by an ACL say.
local appended = not failure
if appended then
  answer = type(answer) == 'table' and answer or pcall('PEXPIRE', history, ARGV[3])
end
if versions and appended then
  answer = type(answer) == 'table' and answer or pcall('HSET', meta, 'v', version, 've', ARGV[10])
end
if result and appended then
  answer = type(answer) == 'table' and answer or pcall('HSET', result, 'e', epoch, 's', number)
  answer = type(answer) == 'table' and answer or pcall('PEXPIRE', result, ARGV[7])
end
if appended and type(answer) == 'table' then
  failure = answer
end
if ARGV[4] ~= '' and not failure then
  if ARGV[8] == '1' then
    envelope = '__d1:' .. number .. ':' .. epoch .. ':' .. #previous .. ':' .. previous .. ':' .. #ARGV[1] .. ':' .. ARGV[1]
  end
  answer = pcall(verb, ARGV[4], envelope)
  if type(answer) == 'table' then
    failure = answer
  end
end
