### Jemanden rufen.

call = { $who }: Dieser Vorfall ist jetzt kritisch.
