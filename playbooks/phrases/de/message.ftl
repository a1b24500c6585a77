### Was über einen Vorfall und seine Diagnose gesagt wird.
###
### Glossar: in jeder Datei dasselbe Wort für dieselbe Sache.
###   incident Vorfall · alert Alarm (ist aktiv, wird behoben) · digest Sammelmeldung · flapping flattert
###   cause Ursache · evidence Belege · check Prüfung (trifft zu) · symptom Symptom · fix Abhilfe · step Schritt
###   replica Replikat, Replikate · pool Pool · engine Engine · playbook Playbook · runbook Runbook · signal Signal
###   silence Stummschaltung, stummschalten · matchers Bedingungen · escalate eskalieren · acknowledge übernehmen
###   metric Messwert · series Zeitreihe · query Abfrage · threshold Schwelle · log Protokoll · store Datenbank
### Aufforderungen stehen im Infinitiv („Erneut prüfen“), ohne du und Sie. Namen aus Prometheus, Slack und den Engines
### bleiben, wie sie dort heißen.

## Wörter

verdict-likely = wahrscheinlich
verdict-possible = möglich
verdict-unlikely = unwahrscheinlich
verdict-undetermined = nicht zu sagen
verdict-ruled-out = ausgeschlossen

and-more = { $shown } und { $n } weitere
change = { $now } ({ $factor }, vorher { $was })
change-from-nothing = { $now } (vorher { $was })
fact-direct = { $fact } (direkt gelesen)
fact-none = { $title }: keine

## Die erste Zeile: was, wen es trifft, warum

state-critical = KRITISCH
state-warning = WARNUNG
state-unconfirmed = ALARM, nicht bestätigt
state-resolved = BEHOBEN nach { $duration }
asked-confirmed = Bestätigt
asked-absent = Nicht bestätigt
asked-no-data = Nicht zu sagen
why-possibly = möglicherweise { $chain }
why-nothing = keine Ursache sticht heraus
why-absent = jetzt ist nichts Auffälliges zu sehen
why-no-data = es fehlen Messwerte

## Das Symptom und wen es trifft

symptom-confirmed = **Bestätigt**: { $facts }. { $impact }
symptom-was = **Es war**: { $facts }. { $impact }
symptom-absent = **Nicht bestätigt**: { $facts } — es ist vielleicht vorbei, oder der Alarm ist strenger als diese Prüfung.
symptom-no-data = **Nicht zu sagen**: keine Daten zu { $facts }.
radius-pool = in einem Pool mit { $total ->
    [one] 1 Replikat
   *[other] { $total } Replikaten
 }
radius-all = auf { $total ->
    [one] dem einzigen Replikat
   *[other] allen { $total } Replikaten
 }
radius-some = auf { $n } von { $total ->
    [one] 1 Replikat
   *[other] { $total } Replikaten
 }: { $names }
hits-all = Trifft { $total ->
    [one] das einzige Replikat
   *[other] alle { $total } Replikate
 }.
hits-some = Trifft { $n } von { $total ->
    [one] 1 Replikat
   *[other] { $total } Replikaten
 }: **{ $names }**
hits-on = { $hits } auf { $places }
hits-share = { $hits }, { $share } des Verkehrs
looking = **Die Messwerte werden geprüft …**
no-playbook = Kein Playbook für diesen Alarm
no-playbook-why = Es gibt keine Diagnose. Den Namen des Alarms unter `matches` eines Playbooks eintragen oder dem Alarm das Label `playbook` geben.

## Warum

why = Warum
why-none = Keine Ursache sticht heraus: Alles, was geprüft werden konnte, spricht gegen die bekannten Ursachen.
chain-link = ← **{ $title }** — { $verdict }: { $facts } ({ $agree } von { $known } Prüfungen treffen zu)
chain-link-blind = ← **{ $title }** — { $verdict }: { $facts } ({ $agree } von { $known } Prüfungen treffen zu, { $unknown } ohne Daten)
chain-short = ← **{ $title }**
chain-short-since = ← **{ $title }** seit { $at }
chain-root = ← **{ $title }** — { $verdict }
chain-root-since = ← **{ $title }** — { $verdict }, seit { $at }
evidence-for = Dafür: { $facts } ({ $agree } von { $known } Prüfungen treffen zu)
evidence-against = Dagegen: { $facts }
evidence-unknown = Unbekannt: { $titles }
not-those = Nicht: { $titles }
began = Beginn: { $story }
also = Auch zu bedenken: { $causes }
other-cause = { $title } ({ $verdict })

## Was zu tun ist

do-now = Jetzt tun
do-now-some = Jetzt tun ({ $shown } von { $n })
lasting = Damit es nicht wiederkommt
step-worked = { $step } — hat geholfen, wenn { $check }
step-source = { $step } ({ $source })
source = Quelle

## Was nicht bekannt ist

ruled-out = Was es nicht ist
ruled-out-because = { $title } — { $fact } (nötig wäre { $when })
ruled-out-rest = auch nicht: { $titles }
ruled-out-rest-more = auch nicht: { $titles }; und { $n } weitere
unchecked = Was nicht geprüft werden konnte
unchecked-reason = { $titles }: { $why }
unchecked-short = { $titles } → { $enable }
unchecked-enable = { $reason } → { $enable }
and-others = und { $n } weitere
while-looking = Bei der Suche

## Alarme, und was sonst bekannt ist

alerts = Alarme
alerts-firing = { $n } aktiv: **{ $names }**
alerts-resolved = { $n } behoben: **{ $names }**
alerts-left-out = Alertmanager hat { $n } weitere weggelassen (max_alerts)
reason-first = neu
reason-new-alerts = neue Alarme
reason-fewer-alerts = weniger Alarme
reason-still-firing = weiterhin aktiv
reason-resolved = behoben
reason-refired = wieder aktiv
since-reason = { $id } · seit { $since } · { $reason }
refired = { $n ->
    [one] einmal
   *[other] { $n }-mal
 } wiedergekommen
flapping = **Flattert**: { $what }. Womöglich ist es jedes Mal derselbe Fehler, der nie behoben wurde.
flapping-refired = { $n ->
    [one] einmal
   *[other] { $n }-mal
 } wiedergekommen
flapping-seen = { $n } Vorfälle mit diesen Alarmen in den letzten 24 Stunden
meanwhile = **Währenddessen** kamen { $requests } Anfragen an{ $bad }.
meanwhile-failed = , { $n } davon sind gescheitert ({ $share })
meanwhile-slow = , { $n } waren langsam ({ $share })
meanwhile-failures = **Währenddessen** sind { $n } Anfragen gescheitert.
foot = { $playbook } um { $at }, { $queries ->
    [one] 1 Abfrage
   *[other] { $queries } Abfragen
 } in { $took }
foot-engines = { $foot }, { $engines }

link-prometheus = Prometheus
link-runbook = Runbook
link-dashboard = Dashboard
link-silence = Stummschalten
link-incident = Vorfall

no-incidents = Noch keine Vorfälle.

## Was Menschen getan haben

note-acknowledge = Übernommen von { $who } um { $at }
note-again = Erneut geprüft für { $who } um { $at }
note-right = Ursache stimmt, sagt { $who } um { $at }
note-wrong = **Ursache stimmt nicht**, sagt { $who } um { $at }; es war
note-silence = Stummgeschaltet von { $who } um { $at }
note-expire = Stummschaltung beendet von { $who } um { $at }
note-escalate = Eskaliert von { $who } um { $at }
note-verify = Abhilfe geprüft für { $who } um { $at }
note-verify-alone = Abhilfe geprüft um { $at }
note-detail = { $note }: { $detail }

## Knöpfe

button-acknowledge = Übernehmen
button-again = Erneut prüfen
button-evidence = Belege zeigen
button-silence = Stummschalten
button-escalate = Eskalieren
button-escalate-confirm = Die Nächsten werden jetzt gerufen, mit diesem Vorfall und seiner Diagnose. Fortfahren?
button-right = Ursache stimmt
button-wrong = Ursache falsch
button-verify = Abhilfe { $n } prüfen
button-digest = Vorfälle zeigen
button-bundle = Bündel
