### Calling somebody.

call = { $who }: this incident has become critical.
