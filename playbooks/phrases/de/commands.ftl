### Antworten auf Befehle.

command-late = Das hat zu lange gedauert und wurde abgebrochen. Vielleicht ist Prometheus langsam: `doctor` sagt es.
command-too-long = Das ist zu lang für einen Befehl. `help` zeigt die Befehle.
command-nearly = War { $command } gemeint?
command-usage = So geschrieben: { $usage }
command-progress = { $target } wird angesehen … { $answered }/{ $asked } Abfragen

prometheus-away = Prometheus ist gerade nicht zu erreichen.
targets-none = Prometheus kennt keinen Pool einer hier bekannten Engine. `doctor` sagt, was da ist.
targets-pick = Aus allen wählen …
target-unknown = Kein Pool oder Pod heißt { $target }.
target-several = { $target } kann eines von { $n } sein. Welches?
target-missing = Welcher Pool? Ein Modell, Namespace, Workload oder Pod.
time-ahead = { $time } liegt in der Zukunft.
playbook-unknown = Es gibt kein Playbook { $id }. { $hint }

answer-at = Stand { $time }
diagnosis-beside = Dort außerdem nicht in Ordnung: { $beside }
diagnosis-quiet = Hier ist nichts, wofür ein Alarm auslösen würde. Um tiefer zu sehen: { $example }

health-wrong = { $critical ->
    [0] { $warning ->
        [one] 1 von { $n } Pools hat eine Warnung
       *[other] { $warning } von { $n } Pools haben Warnungen
    }
   *[other] { $warning ->
        [0] { $critical } von { $n } { $n ->
            [one] Pool
           *[other] Pools
        } kritisch
       *[other] { $critical } kritisch, { $warning } mit Warnungen, von { $n } Pools
    }
}
health-well = { $n ->
    [one] Der Pool ist gesund
   *[other] Alle { $n } Pools sind gesund
}
health-unjudged = { $unknown ->
    [one] 1 Pool lässt sich nicht beurteilen
   *[other] { $unknown } Pools lassen sich nicht beurteilen
}, { $healthy } gesund
health-more = { $n } weitere Pools
health-checks-more = … und { $n } weitere
health-why = Warum: { $target }
pool-healthy = Gesund
pool-warning = WARNUNG
pool-critical = KRITISCH
pool-unknown = Unbekannt
pool-seen = { $n ->
    [one] 1 Replikat
   *[other] { $n } Replikate
}, { $seen } von { $of } Prüfungen haben Daten
pool-idle = { $n ->
    [one] 1 Replikat
   *[other] { $n } Replikate
}, im Leerlauf: keine Anfragen

capacity-headline = Kapazität von { $target }, { $n ->
    [one] 1 Replikat
   *[other] { $n } Replikate
}
capacity-live = Gemessen
capacity-cache = KV-Cache eines Replikats: { $value }
capacity-prompt = Mittlerer Prompt: { $value }
capacity-output = Mittlere Ausgabe: { $value }
capacity-fits = Anfragen dieser Länge, die in ein Replikat passen: { $value }
capacity-running = Anfragen, die gerade auf einem Replikat laufen: { $value }
capacity-more = Was auf andere GPUs passen würde: { $command }

doctor-well = Alles, was der Dienst braucht, ist da
doctor-wrong = { $n ->
    [one] 1 Teil, den der Dienst braucht, funktioniert nicht
   *[other] { $n } Teile, die der Dienst braucht, funktionieren nicht
}
doctor-parts = Teile
doctor-ok = { $name } funktioniert
doctor-fails = { $name } **funktioniert nicht**: { $detail }
doctor-signals = { $missing } von { $of } Signalen fehlen, { $blind ->
    [0] kein Playbook ist blind
    [one] 1 Playbook ist blind
   *[other] { $blind } Playbooks sind blind
}
doctor-more = Alles, und was es einschaltet: { $command }

incident-unreadable = Die Datenbank lässt sich gerade nicht lesen.
incident-unknown = Es gibt keinen Vorfall { $id }.
incident-several = Mehrere Vorfälle heißen { $id }. Welcher?
incident-undiagnosed = Dieser Vorfall hat keine Diagnose: Kein Playbook passt zu seinen Alarmen, oder sie entsteht gerade.
incident-since = seit { $at }
incidents-none = Es gibt keine Vorfälle.
incidents-open = { $n ->
    [0] Kein Vorfall ist offen
    [one] 1 Vorfall ist offen
   *[other] { $n } Vorfälle sind offen
}
incidents-today = { $n ->
    [0] Kein Vorfall in den letzten 24 Stunden
    [one] 1 Vorfall in den letzten 24 Stunden
   *[other] { $n } Vorfälle in den letzten 24 Stunden
}
incidents-newest = { $n ->
    [0] Es gibt keine Vorfälle
    [one] Es gibt 1 Vorfall
   *[other] Die neuesten { $n } Vorfälle
}
incidents-more = Es gibt weitere; gezeigt sind die neuesten.

silence-by-button = **Stummschalten** drücken, um Bedingungen und Dauer zu sehen.

explain-impact = Wen es trifft
explain-causes = Was dahinter stecken kann
explain-now = Sofort tun
explain-lasting = Damit es nicht wiederkommt
explain-runbook = Runbook
playbooks-headline = { $n } Playbooks
playbooks-symptoms = Was Nutzer merken
playbooks-mechanisms = Was dahinter steckt
playbooks-more = Eines davon: { $example }

accuracy-headline = Die genannte Ursache stimmte bei simulierten Fehlern in { $figure }
accuracy-measured = An simulierten Flotten gemessen
accuracy-mechanism = Mechanismus richtig: { $figure }
accuracy-three = Ursache unter den ersten drei: { $figure }
accuracy-wrong = Sicher und falsch: { $figure }
accuracy-healthy = Eine wahrscheinliche Ursache an einer gesunden Flotte genannt: { $figure }
accuracy-here = Hier, nach Rückmeldungen
accuracy-feedback = { $yes } richtig, { $no } falsch
accuracy-no-feedback = Noch niemand hat gesagt, ob eine Ursache stimmte. **Ursache stimmt** und **Ursache falsch** unter einem Vorfall tun das.

help-headline = /llm-diagnose und den Namen eines Pools eingeben, um zu hören, was dort nicht stimmt, oder eines von diesen
help-commands = Befehle
help-arguments = Argumente
help-unknown = Es gibt keinen Befehl { $command }.
help-threads = Im Thread eines Vorfalls: { $why }, { $bundle }. `here` am Ende zeigt eine Antwort dem ganzen Kanal.

form-title = Pool diagnostizieren
form-submit = Diagnose
form-cancel = Abbrechen
form-target = Pool oder Pod
form-target-hint = Teil des Namens eingeben
form-at = Zeitpunkt
form-at-hint = 14:05 (UTC), 10m ago; leer für jetzt
form-last = Über die letzten
form-last-hint = 30m, 2h; leer für das übliche Fenster
form-playbook = Playbook
form-playbook-hint = Passend zu dem, was dort ist
