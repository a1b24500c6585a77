### Everything that was checked.

evidence-met = ✓ { $fact } (asked: { $when }): { $says }
evidence-not-met = ✗ { $fact } (would need { $when }): { $says }
evidence-no-data = ? { $fact }: no data (asked: { $when })
evidence-no-data-why = ? { $fact }: { $why }
evidence-queries = What was asked
# What a check says, by its distance from the threshold.
says-clearly-for = speaks clearly for it
says-for = speaks for it
says-little = close to the threshold, says little
says-against = speaks against it
says-clearly-against = speaks clearly against it
says-varies = { $says } (it varies { $times }x by itself)
