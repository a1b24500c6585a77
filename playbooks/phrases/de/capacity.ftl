### Was `capacity` ausgibt. Die erste Spalte hat 24 Zeichen.

fit-model = { $architecture }: { $parameters }; Schichten: { $layers }
fit-billions = { $n } Mrd. Parameter
fit-millions = { $n } Mio. Parameter
fit-experts = { $parameters }, { $share } % davon in Experten
fit-not-counted = Parameter nicht gezählt
fit-full-attention = { $n } mit voller Attention
fit-sliding-window = { $n } mit gleitendem Fenster
fit-recurrent = { $n } rekurrent
fit-without-mixer = { $n } ohne Mixer
fit-weights = Gewichte
fit-as-given = wie angegeben
fit-kv-cache = KV-Cache
fit-per-token = { $dtype } { $bytes } B je Token
fit-per-token-on-each = { $dtype } { $bytes } B je Token, { $each } B auf jeder GPU
fit-how = tp { $tensor }, pp { $pipeline }, Auslastung { $utilization }
fit-activations = Aktivierungen, geschätzt
fit-cuda-graphs = CUDA-Graphen
fit-runtime = CUDA-Laufzeit, Puffer
fit-reserve = Reserve, wie angegeben
fit-not-used = ungenutzt
fit-holds = Der KV-Cache fasst { $tokens } Tokens
fit-context = Kontext
fit-one-request = eine Anfrage
fit-at-once = zugleich
fit-live = Gemessen: { $scope }, { $n ->
    [one] 1 Replikat
   *[other] { $n } Replikate
 }
fit-everything = alles
fit-tokens-each = { $tokens } Tokens je Replikat
fit-tokens-beside = { $tokens } Tokens je Replikat ({ $percent } % der berechneten { $computed })
fit-mean-prompt = mittlerer Prompt
fit-mean-output = mittlere Ausgabe
fit-at-that-length = passen bei dieser Länge
fit-running = laufen gerade
fit-requests-each = { $n } Anfragen je Replikat
fit-no-signal = kein Wert für { $signal }: { $why }
fit-warnings = Warnungen
fit-assumed = Angenommen
