### Was über Exporter gesagt wird, die selbst gelesen wurden.

direct-no-answer = Prometheus hat nicht geantwortet; { $read } direkt gelesen, nur für diesen Augenblick
direct-in-part = Prometheus hat nur teilweise geantwortet; { $read } direkt gelesen, nur für diesen Augenblick
direct-no-values = Prometheus hat von manchen Exportern keine aktuellen Werte; { $read } direkt gelesen, nur für diesen Augenblick
direct-asked = Wie gewünscht, ohne auf den nächsten Abruf zu warten; { $read } direkt gelesen, nur für diesen Augenblick
direct-engines = { $n } { $n ->
    [one] Engine
   *[other] Engines
 }
direct-engines-of = { $n } von { $known } { $known ->
    [one] Engine
   *[other] Engines
 }
direct-gpus = { $n } GPU-Exporter
direct-gpus-of = { $n } von { $known } GPU-Exportern
direct-both = { $engines } und { $gpus }
direct-remark = { $names } { $what }
direct-more-remarks = und { $n } { $n ->
    [one] weitere Bemerkung
   *[other] weitere Bemerkungen
 } zu Exportern
direct-left-out = { $n } weitere Exporter ausgelassen: zu viele, um sie auf einmal zu lesen
