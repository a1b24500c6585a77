### Die Seiten des Dienstes: Rahmen, Listen, Playbooks und der Zustand der Flotte.

## Der Rahmen

page-skip = Zum Inhalt springen
page-places = Seiten
page-live = Live
page-updated = Aktualisiert um
page-away = Nicht live: Der Dienst antwortet nicht. Neuer Versuch folgt.
page-incidents = Vorfälle
page-playbooks = Playbooks
page-health = Zustand der Flotte

## Vorfälle

page-counts = { $open } offen, { $all } gespeichert
page-open = Offen
page-none-open = Nichts ist offen
page-recent = Zuletzt
page-found = Gefunden
page-none-found = Keine.
page-looked-at = { $n ->
    [one] Ein Vorfall wurde durchsucht
   *[other] { $n } Vorfälle wurden durchsucht
 }, die neuesten zuerst. Von jedem zählen die ersten 20 Alarme.
page-older = Ältere Vorfälle
page-empty = Vorfälle erscheinen hier, sobald Alertmanager den ersten Alarm an `/webhook/alertmanager` schickt. `llm-diagnose doctor` sagt, ob alles verbunden ist, und `llm-diagnose diagnose` untersucht einen Pool ohne Alarm.
page-find = Suchen
page-find-text = Text
page-find-cause = Ursache oder Playbook
page-find-label = Label
page-find-state = Zustand
page-state-any = alle
page-state-open = offen
page-state-resolved = behoben

## Playbooks

page-playbooks-lead = Was ein Symptom erklären kann, als Daten. Alarme treffen auf ein Symptom; die Diagnose geht hinab bis zur Ursache.
page-symptoms = Symptome: was Nutzer spüren
page-mechanisms = Mechanismen: wie die Flotte es hervorbringt
page-symptom = Symptom
page-mechanism = Mechanismus
page-impact = Auswirkung
page-met-of = Markiert mit dem, was die Diagnose von { $incident } fand, um
page-tree = Was es erklären kann
page-tree-lead = Es liegt vor, wenn diese Prüfungen zutreffen. Darunter stehen die Ursachen, die häufigsten zuerst.
page-no-causes = Darunter steht nichts: Es ist selbst eine Ursache.
page-fallback = nur, wenn nichts anderes möglich ist
page-open-playbook = Dieses Playbook öffnen
page-or = oder
page-required = nötig
page-gaps = Bekannte Lücken
page-enters = Alarme, die hierher führen
page-sources = Quellen
page-playbook-now = Playbook, mit dem, was zutrifft
page-bundle = Bundle von { $at }, { $bytes }

## Prüfungen

page-met = trifft zu
page-not-met = trifft nicht zu
page-no-data = keine Daten
page-not-kept = nicht angesehen
page-holds = Befund
page-check = Prüfung
page-now-value = Jetzt
page-before = Vorher
page-asked = Gefragt
page-since = Seit
page-limits = Grenzen
page-replicas = Replicas

## Die Flotte

page-in-order = { $n ->
    [one] Eine Prüfung ist in Ordnung oder dient der Information
   *[other] { $n } Prüfungen sind in Ordnung oder dienen der Information
 }
page-unseen = { $n ->
    [one] Eine Prüfung ist nicht zu sehen
   *[other] { $n } Prüfungen sind nicht zu sehen
 }
page-no-pool = In Prometheus wurde keine Serving-Engine gefunden. `llm-diagnose doctor` sagt, was fehlt.

## Warum es keine Seite gibt

page-closed = Die Seiten sind geschlossen
page-closed-why = Andere als dieser Rechner können sie erreichen, und niemand wird gefragt, wer er ist. Setze `pages.username` und `pages.password_file`, `pages.bearer_token_file` oder `pages.proxy_header` mit `pages.proxy_from`; auch die Zugangsdaten des Webhooks öffnen sie. Auf Loopback sind sie offen.
page-refused = Falsche oder fehlende Zugangsdaten
page-refused-why = Frage, wer diesen Dienst betreibt, nach Nutzer und Passwort der Seiten, oder öffne sie über euren Proxy.
page-no-incident = Diesen Vorfall gibt es nicht
page-no-incident-why = Es gab ihn nie, oder er ist älter als das, was behalten wird (`incident.keep`). Die Liste der Vorfälle hat alle.
page-no-playbook = Dieses Playbook gibt es nicht
page-no-playbook-why = Die Liste der Playbooks hat alle geladenen, mitgelieferte und eigene.
page-nowhere = Diese Seite gibt es nicht
page-nowhere-why = Die Leiste oben führt zu allen, die es gibt.
page-no-store = Der Speicher ist nicht lesbar
page-no-store-why = Vorfälle werden weiter angenommen, sobald er sich beschreiben lässt. Lade die Seite neu; `/readyz` sagt, was nicht stimmt.
