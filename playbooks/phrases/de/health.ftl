### Die Gesundheit der Flotte im Terminal. Kurze Wörter stehen in Spalten: höchstens so breit wie diese.

health-healthy = gesund
health-warning = WARNUNG
health-critical = KRITISCH
health-unknown = unbekannt
health-no-pool = kein Pool
health-one-pool = 1 Pool
health-pools = { $n } Pools: { $states }
health-left-out = { $n } weitere { $n ->
    [one] Pool
   *[other] Pools
 } ausgelassen: eingrenzen mit --scope namespace=…,model=…
health-no-name = Pool ohne Labels
health-replicas = { $n ->
    [0] seit einer Stunde kein Replikat
    [one] 1 Replikat
   *[other] { $n } Replikate
 }
health-column-now = jetzt
health-column-warning = Warnung
health-column-critical = kritisch
health-column-playbook = Playbook
health-ok = ok
health-warn = WARN
health-crit = KRIT
health-no-data = keine
health-or = { $one } oder { $other }
health-and = { $one } und { $other }
health-together = zählt zusammen mit { $all }
health-coverage = Abdeckung
health-have-data = { $n } von { $of } Prüfungen haben Daten
health-have-data-idle = { $n } von { $of } Prüfungen haben Daten; gerade wird nichts angefragt, daher haben Wartezeiten und Anteile keinen Wert
health-unseen = Was von manchen Pools nicht zu sehen ist
health-next = weiter
health-foot = Schwellen: die der Alarmregeln aus den Playbooks; ausgelöst wird, wenn eine minutenlang überschritten ist
health-foot-star = Schwellen: die der Alarmregeln aus den Playbooks; ausgelöst wird, wenn eine minutenlang überschritten ist; *: vom Symptom des Playbooks, ohne Alarm

coverage-title = Signale in Prometheus { $prometheus }
coverage-nothing = keine Engine und kein Exporter gefunden
coverage-signals = { $found }; { $answer } von { $n } Signalen antworten, { $unused } gehören zu Funktionen, die nicht genutzt werden, { $missing } fehlen
coverage-playbooks = Playbooks, die nicht alles sehen
coverage-blind = blind
coverage-half-blind = halbblind
coverage-lacks = ohne { $titles }
