### Everything that was checked.

evidence-met = ✓ { $fact } (asked: { $when })
evidence-not-met = ✗ { $fact } (would need { $when })
evidence-no-data = ? { $fact }: no data (asked: { $when })
evidence-no-data-why = ? { $fact }: { $why }
evidence-queries = What was asked
