### Was über einen Vorfall und seine Diagnose gesagt wird.

nothing-fits = Der Rest passt nicht in eine Nachricht.
