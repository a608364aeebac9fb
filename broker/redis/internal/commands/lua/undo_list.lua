-- Behind publish: takes the entry back.
if appended then
  pcall('LPOP', history)
end
return failure
