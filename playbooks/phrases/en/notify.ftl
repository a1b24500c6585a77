### Calling somebody.

call = { $who }: this incident has become critical.
call-storm = { $who }: critical in this storm too: { $pools }
call-more = { $n } more
