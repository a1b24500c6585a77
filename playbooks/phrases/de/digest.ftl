### Ein Sturm: viele Vorfälle in einer Nachricht.

digest-storm = Sturm aus { $n } { $n ->
    [one] Vorfall
   *[other] Vorfällen
 }
digest-over = BEHOBEN
digest-various = verschiedene Ursachen
digest-counts = { $firing } aktiv{ $critical ->
    [0] {""}
   *[other] {" "}({ $critical } kritisch)
 }{ $resolved ->
    [0] {""}
   *[other] , { $resolved } behoben
 }
digest-title = Was es ist, das Schlimmste zuerst
digest-line = { $line } — { $firing } aktiv{ $critical ->
    [0] {""}
   *[other] {" "}({ $critical } kritisch)
 }{ $resolved ->
    [0] {""}
   *[other] , { $resolved } behoben
 }, seit { $since }
digest-more = … und { $n } weitere { $n ->
    [one] Zeile
   *[other] Zeilen
 } mit { $incidents } { $incidents ->
    [one] Vorfall
   *[other] Vorfällen
 }
digest-times = der erste um { $oldest }, der letzte um { $newest }
