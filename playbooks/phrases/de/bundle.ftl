### Was über Bündel gesagt wird: wie weit eines ist, was darin steht, wo es zu haben ist.

bundle-waits = Das Bündel wartet, bis es an der Reihe ist: andere werden gerade gemacht
bundle-progress = Das Bündel wird gemacht: { $over } von { $all ->
    [one] 1 Teil
   *[other] { $all } Teilen
  } erledigt
bundle-parts-done = **fertig** { $parts }
bundle-parts-running = **läuft** { $parts }
bundle-parts-partial = **gekürzt** { $parts }
bundle-parts-failed = **gescheitert** { $parts }
bundle-parts-skipped = **ausgelassen** { $parts }
bundle-complete = Das Bündel zu { $of } ist vollständig: { $size }
bundle-incomplete = Das Bündel zu { $of } ist gemacht, aber nicht vollständig: { $size }
bundle-here = Die Datei ist hochgeladen: zuerst `report.html` darin öffnen.
bundle-download = Bündel herunterladen
bundle-link = { $link }: gilt bis { $until }, für alle, die den Link haben.
bundle-disk = Es liegt auf der Platte von llm-diagnose als { $path }. Für einen Link darauf `public_url` setzen; bis dahin von dort kopieren.
bundle-file = Es liegt in { $path }: zuerst `report.html` darin öffnen, oder die Datei weitergeben.
bundle-too-large = Bündel über { $most } werden nicht hochgeladen.
bundle-upload-failed = Slack hat die Datei nicht angenommen: { $why }
bundle-missing = Was fehlt oder gekürzt ist
bundle-missing-part = **{ $part }**: { $why }
bundle-why-unknown = warum, ist nicht bekannt
bundle-without = Ohne das, was nicht eingerichtet ist oder nicht zutrifft: { $parts }
bundle-redacted = { $n ->
    [one] 1 Geheimnis oder Name wurde
   *[other] { $n } Geheimnisse oder Namen wurden
  } aus { $files ->
    [one] 1 Datei
   *[other] { $files } Dateien
  } entfernt: { $rules }
bundle-redacted-nothing = Nichts wurde entfernt.
bundle-title = Bündel zu Vorfall { $id }
bundle-none = Zu { $id } gibt es kein Bündel: { $why }
bundle-busy = Zu viele Bündel werden gerade gemacht: in einer Minute noch einmal fragen.
bundle-quiet = Ein Pool ohne etwas, wofür ein Alarm ausgelöst würde
