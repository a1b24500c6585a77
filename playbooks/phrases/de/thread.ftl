### Was Threads und Sammelmeldungen sagen.

thread-over = Vorbei: Es feuert kein Alarm mehr.
thread-more-alerts = { $count ->
    [one] Ein weiterer Alarm feuert.
   *[other] { $count } weitere Alarme feuern.
}
thread-more-replicas = { $count ->
    [one] Eine weitere Replik ist betroffen.
   *[other] { $count } weitere Repliken sind betroffen.
}
thread-cause = Ursache jetzt: **{ $cause }**

digest-headline = STURM · { $count } Vorfälle, { $open } offen · { $topic }
digest-over = STURM VORBEI · { $count } Vorfälle · { $topic }
digest-other = andere Themen
digest-incidents = Vorfälle
digest-more = …und { $count } weitere
digest-why = Seit { $since } kommen mehr Vorfälle, als sich einzeln lesen lassen; diese Nachricht steht für sie alle.
