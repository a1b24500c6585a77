### Was über das Protokoll einer Engine gesagt wird.

logs-unknown = UNBEKANNT · an diesem Protokoll ist keine Engine zu erkennen
logs-clean = { $engine } · in diesem Protokoll ging nichts schief
logs-root = { $engine } · { $root }
logs-secondary-only = { $engine } · die Engine ist weg, und was sie beendet hat, steht nicht in diesem Protokoll: ansehen, was davor geschrieben wurde
logs-span = { $lines ->
    [one] 1 Zeile
   *[other] { $lines } Zeilen
  }, { $from } bis { $to }
logs-span-untimed = { $lines ->
    [one] 1 Zeile, ohne Zeitangaben
   *[other] { $lines } Zeilen, ohne Zeitangaben
  }
logs-first-root = Hier begann es
logs-line = Zeile { $line }, { $when }: { $text }
logs-line-untimed = Zeile { $line }: { $text }
logs-findings = Was darin steht, der Reihe nach; Harmloses zuletzt
logs-finding = { $timed ->
    [0] {""}
   *[other] { $when } ·{" "}
  }**{ $title }** ({ $rank }{ $count ->
    [one] {""}
   *[other] , { $count }-mal
  }), Zeile { $line }
logs-rank-root = Ursache
logs-rank-sign = Anzeichen
logs-rank-secondary = folgt aus etwas weiter oben
logs-rank-benign = harmlos
logs-do = Jetzt tun
logs-startup = Womit sie gestartet wurde
logs-statistics = Im Betrieb
logs-learn = Bekannt sind die Protokolle von { $engines }. Mit `--engine` lässt sich eines nennen.
logs-root-of = { $name } · { $root }
logs-all-clean = In diesen { $n } Protokollen ging nichts schief
logs-no-root = In keinem dieser { $n } Protokolle steht, was schiefging
logs-several = { $n } Protokolle, { $rooted ->
    [0] keines davon mit einer Ursache
    [one] eines davon mit einer Ursache
   *[other] { $rooted } davon mit einer Ursache; die früheste steht oben
  }
logs-of-pod = Vom Pod { $pod }
logs-cut = Es ist größer als das, was gelesen wird: sein Anfang fehlt hier
logs-more = und { $n } weitere
logs-column-lowest = kleinster
logs-column-middle = mittlerer
logs-column-highest = größter
logs-column-last = letzter

## neben einer Diagnose

fact-log = { $n ->
    [0] { $fact } (in den Protokollen)
    [one] { $fact } (im Protokoll von { $names })
   *[other] { $fact } (in den Protokollen von { $names })
  }
logs-began = Das Protokoll von { $name } sagt, wie es begann: { $root }{ $timed ->
    [0] {""}
   *[other] , um { $when }
  }
logs-say-nothing = In den Protokollen von { $names } steht nicht, was schiefging
logs-missing = Nicht gelesen, { $what }: { $why }{ $more ->
    [0] {""}
   *[other] {" "}(und { $more } weitere)
  }
