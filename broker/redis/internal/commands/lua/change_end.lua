-- Behind publish_send: changes the entry. The position lives as long as there are entries.
if not failure then
  apply(number)
  if not removing then
    call('HSET', meta, 'm', ARGV[20])
  end
  if call('HLEN', entries) > 0 then
    call('PERSIST', meta)
  end
end
