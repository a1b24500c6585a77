### Calling somebody.

call = { $who }: this incident is critical.
call-storm = { $who }: critical in this storm too: { $pools }
reminder = Nobody has acknowledged this critical incident for { $age }.
call-more = { $n } more
