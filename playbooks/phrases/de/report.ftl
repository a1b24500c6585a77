### Der Bericht eines Vorfalls: seine Seite, und report.html eines Bundles.

## Der erste Bildschirm

report-utc = Zeiten in UTC
report-incomplete = unvollständig
report-incomplete-why = Nicht jeder Teil ließ sich herstellen. Was fehlschlug und warum, steht hier; alles andere ist ganz.
report-not-diagnosed = Er war vorbei, bevor er diagnostiziert wurde.
report-since = Seit
report-at = Angesehen
report-lasts = seit { $time }
report-lasted = dauerte { $time }
report-lasted-then = nach { $time } noch offen, als dies entstand
report-hurt = Wen es trifft
report-unknown = noch nicht bekannt
report-whole-pool = den Pool
report-all = { $total ->
    [one] das einzige Replikat
   *[other] alle { $total } Replikate
 }
report-some = { $n } von { $total } Replikaten
report-sure = Wie sicher
report-agree = { $agree } von { $known } Prüfungen stimmen überein
report-no-cause = noch keine Ursache
report-on-it = Wer sich kümmert
report-nobody = noch niemand
report-root = Ursache
report-mechanism = Mechanismus
report-symptom = Was Nutzer spüren
report-from = seit
report-escalate = Wer übernimmt: { $whom }
report-log-first = Erster Fehler in den Logs:
report-nothing-now = Nichts ist bekannt, das sofort hilft.
report-more-steps = { $n ->
    [one] Noch ein Schritt
   *[other] { $n } weitere Schritte
 }
report-worked = Hat gewirkt, wenn { $check }.
report-contents = Inhalt
report-made = Erstellt { $at } von llm-diagnose { $version }.
report-window = Handelt von

## Teile

report-picture = Was den Ausschlag gab, im Verlauf
report-no-picture = Kein Bild: Prometheus antwortete nicht rechtzeitig oder hat diese Reihen nicht mehr.
report-evidence = Was geprüft wurde
report-direct = direkt gelesen
report-not = Was es nicht ist
report-cause = Ursache
report-because = Weil
report-needed = Nötig wäre
report-unchecked = Was sich nicht prüfen ließ
report-unchecked-lead = Das bleibt offen. Fehlende Daten sprechen weder dafür noch dagegen.
report-enable = So wird es sichtbar:
report-timeline = Verlauf
report-between = { $n } dazwischen
report-kind-alert = Alarm
report-kind-onset = Beginn
report-kind-restart = Neustart
report-kind-rollout = Rollout
report-kind-silence = Stummschaltung
report-kind-message = Nachricht
report-kind-act = Handlung
report-kind-log = Log
report-kind-event = Ereignis
report-logs = Logs
report-log-silent = nichts Bekanntes darin
report-log-do = Tun:
report-log-line = Zeile { $line }, { $n ->
    [one] einmal
   *[other] { $n }-mal
 }
report-rank-root = Ursprung
report-rank-sign = Anzeichen
report-rank-secondary = folgt aus etwas Früherem
report-rank-benign = harmlos
report-topology = Replikate und wo sie laufen
report-no-node = Knoten nicht bekannt
report-not-hit = { $n ->
    [one] Das Replikat auf einer Maschine ohne Störung
   *[other] { $n } Replikate auf Maschinen ohne Störung
 }
report-affected = betroffen
report-alerts = Alarme
report-fires = feuert
report-ended = vorbei
report-rules = Alarmregeln
report-rule-for = Muss { $time } lang gelten.
report-parts = Teile dieses Bundles
report-part = Teil
report-stage = Stand
report-note = Was darin ist
report-size = Größe
report-stage-waiting = wartet
report-stage-running = entsteht
report-stage-done = ganz
report-stage-partial = teilweise
report-stage-failed = fehlgeschlagen
report-stage-skipped = ausgelassen
report-redacted = Was herausgenommen wurde
report-file = Datei
report-rule = Regel
report-count = Anzahl
report-tickets = Tickets zum Einfügen
report-tickets-lead = Text für die, die übernehmen, mit den Angaben, nach denen sie fragen.
report-bundles = Bündel dazu
report-bundles-how = `/llm-diagnose bundle { $incident }` in Slack oder `llm-diagnose bundle { $incident }` neben dem Dienst legt alles dazu in eine Datei: diesen Bericht, die Zeitreihen, Logs und was der Cluster sagt, ohne Geheimnisse.
report-no-bundles = Hier liegt noch keines.
report-no-numbers = Vorerst keine Zahlen außer denen der Diagnose: Prometheus hat nicht rechtzeitig geantwortet. Sie kommen mit der nächsten Aktualisierung.

## Die sieben Fragen

report-answers = Wonach gefragt wird
report-not-known = Offen:
report-not-known-bundle = Hier nicht bekannt: Ein Bundle fragt Engines, Cluster und Prometheus danach.
report-q-model = Welches Modell, mit welchen Argumenten?
report-q-hardware = Auf welcher Hardware?
report-q-metrics = Welche Zahlen, davor, währenddessen und danach?
report-q-workload = Welche Last?
report-q-deployment = Wie läuft es?
report-q-versions = Welche Versionen?
report-q-goal = Was war erwartet, und was kam?
report-served-as = Angeboten als
report-weights = Gewichte
report-settings = Einstellungen, die die Engine nennt
report-nodes = Maschinen
report-machines = { $n ->
    [one] Eine Maschine
   *[other] { $n } Maschinen
 }
report-read-from = gelesen aus { $source }
report-interconnect = Verbindung
report-before = Davor
report-during = Währenddessen
report-after = Danach
report-change = Änderung
report-untold = { $n ->
    [one] Eine Größe, die niemand nennt
   *[other] { $n } Größen, die niemand nennt
 }
report-input = Länge der Prompts.
report-output = Länge der Antworten.
report-spread = { $count } Anfragen: Mittel { $mean }, die Hälfte unter { $half }, 90 % unter { $most }, 99 % unter { $nearly }.
report-spread-earlier = Früher: Mittel { $mean }, die Hälfte unter { $half }.
report-buckets = Klassen
report-ready = { $ready } von { $wanted } bereit
report-engines = Engines
report-objects = Objekte
report-what = Was
report-version = Version
report-source = Gelesen aus
report-expected = Erwartet
report-actual = Gekommen
report-not-met-since = Nicht erfüllt seit
report-changed = Was sich davor änderte
