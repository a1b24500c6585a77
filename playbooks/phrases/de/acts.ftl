### Was jemand hört, der auf einen Knopf drückt, und was der Thread davon erfährt.

too-often = Das war viel in einer Minute. Bitte kurz warten; was bis dahin kommt, bleibt ohne Antwort.

# Wer nicht darf, und warum.
refused-bot = Programme dürfen hier nichts fragen.
refused-stranger = Fragen dürfen hier nur Mitglieder dieses Workspace.
refused-guest = Gäste dürfen hier nichts fragen, außer `slack.act` in der Konfiguration nennt sie.
refused-gone = Dieses Konto ist geschlossen.
refused-nobody = Das darf noch niemand: In der Konfiguration unter `slack.act` Personen, Nutzergruppen oder Kanäle eintragen.
refused-not-named = Ansehen ja; tun dürfen das nur die, die `slack.act` in der Konfiguration nennt: Personen, Nutzergruppen oder alle in bestimmten Kanälen.
refused-unknown = Slack sagt gerade nicht, wer da fragt und in welchen Nutzergruppen. Deshalb ist nichts geschehen; bitte noch einmal versuchen.

# Jede Handlung.
act-unknown = Diesen Knopf gibt es hier nicht (mehr). Es ist nichts geschehen.
act-gone = Diesen Vorfall gibt es nicht mehr: Alte werden nach einer Weile gelöscht. Es ist nichts geschehen.
act-over = Dieser Vorfall ist vorbei: Kein Alarm ist mehr aktiv. Es ist nichts geschehen.
act-store = Die Datenbank antwortet nicht, deshalb ist nichts geschehen. Bitte noch einmal versuchen.
form-late = Slack hat kein Formular geöffnet: Drei Sekunden haben nicht gereicht. Bitte noch einmal drücken.
form-close = Schließen
form-send = Absenden
form-comment = Kommentar
form-notice = Nichts geschehen
said-comment = „{ $comment }“

acknowledged-already = Das ist schon übernommen.
again-begun = Wird noch einmal geprüft; die Nachricht ändert sich gleich.
again-no-playbook = Zu diesem Alarm passt kein Playbook, es gibt also nichts erneut zu prüfen.

# Belege zeigen.
evidence-title = Belege
evidence-title-page = Belege { $n }/{ $all }
evidence-next = Nächste Seite
evidence-none = Es gibt noch keine Diagnose.

# Richtig oder falsch.
feedback-no-cause = Es wurde keine Ursache genannt, also gibt es nichts zu bestätigen.
feedback-thanks = Danke, ist notiert.
wrong-title = Was war es wirklich?
wrong-cause = Die richtige Ursache
wrong-which = Ursache wählen
wrong-other = Etwas anderes
wrong-unknown = Bitte eine der Ursachen wählen.
wrong-note = { $cause }
wrong-note-comment = { $cause } („{ $comment }“)

# Stummschalten.
silence-title = Stummschalten
silence-send = Stummschalten
silence-what = Alertmanager schweigt dann über jeden Alarm, der **alle** diese Labels hat. Weniger Labels schalten mehr Alarme stumm.
silence-matchers = Bedingungen
silence-labels = Labels, die ein Alarm haben muss
silence-which = Labels wählen
silence-duration = Wie lange
silence-1h = 1 Stunde
silence-4h = 4 Stunden
silence-custom = Wie unten angegeben
silence-custom-duration = Andere Dauer
silence-no-label = Mindestens ein Label wählen: Ohne Label wäre alles stumm.
silence-changed = Die Alarme haben sich inzwischen geändert und stimmen in diesen Labels nicht mehr überein. Bitte das Formular neu öffnen.
silence-wrong-duration = Zum Beispiel 90m, 2h oder 1d: von einer Minute bis 30 Tage.
silence-no-alertmanager = Für diese Alarme ist kein Alertmanager eingetragen: siehe `alertmanagers` in der Konfiguration.
silence-failed = Nichts wurde stummgeschaltet: { $error }
silence-note = bis { $day } { $until }
silence-made = **Stummgeschaltet** von { $who } bis { $day } { $until }: { $matchers }
silence-made-untold = Es ist stummgeschaltet, aber Slack hat die Nachricht darüber nicht angenommen.
silence-takes = { $n ->
    [one] Das betrifft jetzt 1 Alarm.
   *[other] Das betrifft jetzt { $n } Alarme.
 }
silence-deaf = Solange sagt Alertmanager auch nicht, wann die Alarme enden. Die Diagnose läuft weiter.
silence-expire = Stummschaltung beenden
silence-expire-sure = Alarme werden dann wieder gemeldet.
silence-expired = { $who } hat die Stummschaltung von { $matchers } beendet.
silence-unknown = Kein Alertmanager kennt diese Stummschaltung.
silence-over = Diese Stummschaltung ist schon vorbei.
silence-list = { $n ->
    [0] Nichts ist stummgeschaltet.
    [one] 1 Stummschaltung
   *[other] { $n } Stummschaltungen
 }
silence-one = { $matchers } bis { $day } { $until }, von { $by }: { $comment }
silence-more = { $n } weitere: siehe `llm-diagnose silence list`.

# Eskalieren.
escalate-nobody = Es ist niemand eingetragen, der gerufen werden kann: siehe `slack.escalate` in der Konfiguration.
escalate-already = Der letzte Ruf ist noch keine fünf Minuten her.
escalate-done = Verstärkung ist gerufen.
escalate-failed = Niemand wurde gerufen: { $error }
escalate-asks = { $who } bittet um Hilfe: { $headline }
escalate-who = Wer helfen kann: { $who }
escalate-bundle = Alles Bekannte als Datei: { $command }

# Abhilfe prüfen.
verify-no-check = Zu diesem Schritt gibt es keine Prüfung (mehr). Es ist nichts geschehen.
verify-failed = Prüfen war nicht möglich: { $error }
verify-fixed = **Behoben**: { $title } ist { $value }, wie gewünscht ({ $wanted })
verify-fixed-bare = **Behoben**: { $title } ist wie gewünscht ({ $wanted })
verify-not-yet = **Noch nicht**: { $title } ist { $value }, gewünscht ist { $wanted }
verify-not-yet-bare = **Noch nicht**: { $title } ist nicht wie gewünscht ({ $wanted })
verify-cannot-tell = **Nicht zu sagen**: { $title } hat keinen Wert: { $why }
verify-step = Schritt: { $step }
verify-asked = Gefragt von { $who }; wird nach 5 und 15 Minuten noch einmal geprüft.
verify-alone = Von selbst noch einmal geprüft.

# Die Vorfälle einer Sammelmeldung.
listed = { $n ->
    [one] 1 Vorfall
   *[other] { $n } Vorfälle
 }
listed-first = Die ersten { $n } Vorfälle
listed-open = **offen** seit { $at }: { $name } { $whom }, { $cause } (`{ $id }`)
listed-open-unknown = **offen** seit { $at }: { $name } { $whom } (`{ $id }`)
listed-over = vorbei, begann { $at }: { $name } { $whom }, { $cause } (`{ $id }`)
listed-over-unknown = vorbei, begann { $at }: { $name } { $whom } (`{ $id }`)
