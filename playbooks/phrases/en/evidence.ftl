### Everything that was checked.

evidence-met = ✓ { $fact } (condition: { $when }): { $says }
evidence-not-met = ✗ { $fact } (needs { $when }): { $says }
evidence-no-data = ? { $fact }: no data (condition: { $when })
evidence-no-data-why = ? { $fact }: { $why }
evidence-queries = Queries
# What a check says, by its distance from the threshold.
says-clearly-for = supports it clearly
says-for = supports it
says-little = near the threshold: weak evidence
says-against = contradicts it
says-clearly-against = contradicts it clearly
says-varies = { $says } (it varies { $times }x by itself)
