### Calling somebody.

call = { $who }: this incident is critical.
call-storm = { $who }: critical in this storm too: { $pools }
call-more = { $n } more
