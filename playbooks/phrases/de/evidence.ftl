### Alles, was geprüft wurde.

evidence-met = ✓ { $fact } (gefragt: { $when })
evidence-not-met = ✗ { $fact } (nötig wäre { $when })
evidence-no-data = ? { $fact }: keine Daten (gefragt: { $when })
evidence-no-data-why = ? { $fact }: { $why }
evidence-queries = Was gefragt wurde
