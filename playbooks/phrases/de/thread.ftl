### Was im Thread eines Vorfalls steht, wenn sich etwas geändert hat.

thread-resolved = **behoben** nach { $duration }
thread-refired = **wieder aktiv**
thread-flaps = **wieder aktiv**, nun schon { $n }-mal: Es flattert; weiteres Enden und Wiederkommen ändert nur noch die Nachricht oben
thread-alerts-more = +{ $n } { $n ->
    [one] Alarm
   *[other] Alarme
 } (jetzt { $all })
thread-alerts-fewer = { $n } { $n ->
    [one] Alarm
   *[other] Alarme
 } zu Ende (noch { $all })
thread-confirmed = das Symptom ist bestätigt
thread-absent = das Symptom ist weg, der Alarm noch aktiv
thread-no-data = jetzt fehlen Messwerte
thread-replicas-more = +{ $n } { $n ->
    [one] Replikat
   *[other] Replikate
 } ({ $hit } von { $total })
thread-replicas-fewer = { $n } { $n ->
    [one] Replikat
   *[other] Replikate
 } weniger ({ $hit } von { $total })
thread-cause-now = Ursache jetzt: **{ $title }**
thread-cause-found = Ursache: **{ $title }**
thread-cause-likely = jetzt wahrscheinlich: **{ $title }**
thread-cause-gone = keine Ursache sticht mehr heraus
