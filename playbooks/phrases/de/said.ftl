### Sätze, die in Daten stehen und dort englisch sind: was jemand statt ihrer liest. Ohne Mehrzahlformen.

## Warum ein Signal keinen Wert hat

said-no-past = es gibt keine Vergangenheit zum Vergleichen
said-no-series = keine Zeitreihen
said-no-value = kein Wert
said-no-data = keine Daten
said-not-asked = wurde nicht abgefragt
said-no-replica = kein Replikat hat einen Wert
said-no-peers = ein Replikat allein hat nichts zum Vergleichen
said-cannot-tell = { $engine } sagt dazu nichts: { $reason }
said-no-engine-series = dieses Prometheus hat keine Zeitreihen von { $engine }
said-no-engine = dieses Prometheus kennt keine Engine
said-no-gateway = dieses Prometheus kennt kein Gateway
said-no-gpu = dieses Prometheus kennt keinen GPU-Exporter
said-no-platform = dieses Prometheus kennt keinen Orchestrator
said-only-logs = nur Protokolle sagen es
said-enable-missing = { $enable }: die Zeitreihe `{ $series }` fehlt
said-enable-any = `/metrics` abrufen lassen; eine dieser Zeitreihen muss da sein: { $series }
said-native = `{ $name }` ist hier ein natives Histogramm, gelesen werden nur klassische
said-nothing-happened = keine Zeitreihen: Im Zeitfenster ist nichts dergleichen geschehen, oder diese Version hat sie nicht
said-only-with = nur mit { $feature }

## Was angesehen wurde

said-not-narrowed = die Zeitreihen von { $engine } haben kein Label für { $dimension } `{ $value }` des Alarms: Der Pool wurde danach nicht eingegrenzt
said-gateway-whole = keine Zeitreihe von { $engine } aus der letzten Stunde hat { $label }=`{ $value }`: Das Gateway wurde als Ganzes angesehen
said-no-such-series = keine Zeitreihe von { $engine } aus der letzten Stunde hat { $label }=`{ $value }`
said-no-playbook = es gibt kein Playbook `{ $id }`
said-late-queries = { $n } von { $of } Abfragen kamen nicht rechtzeitig zurück
said-several-queries = { $why } ({ $n } Abfragen)
said-no-such-labels = kein eingetragenes Prometheus hat die Labels { $labels }
said-fleet-not-narrowed = die Zeitreihen der Engines haben kein Label für { $dimension } `{ $value }`: Die Flotte wurde danach nicht eingegrenzt
said-no-such-pool = kein Pool des letzten Tages hat { $dimension } `{ $value }`; es gibt { $others }
said-gone = am letzten Tag noch da, in der letzten Stunde nicht mehr, und soweit bekannt von niemandem vermisst: { $pools }

## Wer mit uns spricht, und wer nicht

said-late = keine Antwort in der vorgesehenen Zeit
said-prometheus-unreachable = Prometheus ist nicht zu erreichen: { $reason }
said-prometheus-refused = Prometheus hat die Abfrage abgelehnt ({ $kind }): { $reason }
said-not-prometheus = die Antwort ist nicht von Prometheus: { $reason }
said-slack-wait = Slack bittet um { $seconds } s Pause
said-slack-refused = Slack hat abgelehnt: { $reason }
said-slack-unreachable = Slack ist nicht zu erreichen: { $reason }
said-slack-late = Slack hat nicht rechtzeitig geantwortet
said-alertmanager-unreachable = Alertmanager ist nicht zu erreichen: { $reason }
said-alertmanager-late = Alertmanager hat nicht rechtzeitig geantwortet
said-alertmanager-refused = Alertmanager hat mit { $status } geantwortet: { $reason }
said-not-alertmanager = die Antwort ist nicht von Alertmanager: { $reason }
said-refuses = nimmt keine Verbindung an
said-unreachable = ist nicht zu erreichen: { $reason }
said-silent = hat die Verbindung angenommen und nicht rechtzeitig geantwortet
said-status = hat mit HTTP { $status } geantwortet
said-redirect = hat auf eine andere Adresse verwiesen, der nicht gefolgt wird: die Seite selbst eintragen
said-too-large = hat mehr als { $size } MiB geschickt
said-not-metrics = hat keine Messwerte geschickt: { $why }
said-not-that-engine = die Zeitreihe `{ $series }` fehlt, also ist es kein { $engine }
said-not-allowed = hat eine Adresse, die nicht gelesen werden darf: { $address } liegt in keinem Netz von `exporters.allow` oder ist nie erlaubt
said-no-number = hat keine brauchbare Zahl in `{ $metric }`
said-anew = hat zwischen den beiden Abrufen neu begonnen, daher sagen die Zähler nichts
said-read-once = wurde nur einmal gelesen, daher sagen die Zähler nichts
said-diagnoses-wait = { $why }; so lange warten Diagnosen
said-messages-wait = { $why }; so lange warten Nachrichten
said-no-socket = 0 von { $wanted } Verbindungen{ $why }; so lange bewirken Knöpfe und Befehle nichts
said-no-answer = keine Antwort innerhalb von { $milliseconds } ms

## Kapazität

said-uncountable = die Parameter von { $model } lassen sich aus der Konfiguration nicht zählen: die Größe des Checkpoints angeben, etwa `--weights 60GiB`
said-unknown-precision = die Quantisierung des Checkpoints ist hier nicht bekannt: `--precision` angeben, oder die Größe, etwa `--weights 20GiB`
said-longer-than-made = { $asked } Tokens sind mehr als die { $made } des Modells: Das nimmt die Engine nur mit skalierten Positionen an
said-replicated = nur { $heads } Köpfe für Schlüssel und Werte auf { $gpus } GPUs: Jeder liegt { $times }-mal vor, daher wächst der Pool weniger als die Zahl der GPUs
said-estimated = Aktivierungen sind geschätzt für --max-num-batched-tokens { $batched } und --max-num-seqs { $sequences }; die wirklichen stehen im Startprotokoll, für `--reserve`
said-estimated-graphs = Aktivierungen sind geschätzt für --max-num-batched-tokens { $batched } und --max-num-seqs { $sequences }, CUDA-Graphen mit 0,5 GiB; die wirklichen stehen im Startprotokoll, für `--reserve`
said-driver-size = gerechnet wird mit der Größe, die der Treiber meldet; sie liegt etwa 1 % unter den „80 GB“ auf der Schachtel
said-hybrid = Schichten verschiedener Art teilen sich den Pool wie in vLLMs hybrider Verwaltung des KV-Cache; ohne sie behält jede Attention-Schicht alle Tokens
said-nothing-else = sonst läuft nichts auf diesen GPUs; kein spekulatives Dekodieren, kein LoRA, kein Auslagern des KV-Cache
said-does-not-fit = das Modell passt nicht auf { $gpus }
said-request-does-not-fit = eine Anfrage mit { $tokens } Tokens passt nicht auf { $gpus }; { $longest } passen: `--max-model-len { $flag }`
said-smallest = { $why }; die kleinste Tensor-Parallelität, mit der es geht, ist { $n }
said-no-smallest = { $why }; bis 64 geht es mit keiner Tensor-Parallelität: mehr Speicher, weniger Bits, `--kv-cache-dtype fp8` oder ein größeres `--pp`
said-less-cache = der KV-Cache der Engine fasst { $percent } % des berechneten: `--gpu-memory-utilization` ansehen, den Typ des KV-Cache, andere Prozesse auf der GPU, größere Batches, ein Entwurfsmodell, `--num-gpu-blocks-override`
said-more-cache = der KV-Cache der Engine fasst { $percent } % des berechneten: GPU ansehen, Tensor-Parallelität, Genauigkeit von Gewichten und KV-Cache, `--max-num-batched-tokens`
said-replicas-differ = die Replikate unterscheiden sich: { $replica } fasst { $least }, andere bis zu { $most }
said-full = auf jedem Replikat laufen { $running } Anfragen, und { $holds } dieser mittleren Länge passen: Der KV-Cache ist die Grenze
said-inner-model = `{ $key }` ist das Sprachmodell; Gewichte für Bild und Ton sind nicht mitgezählt
said-no-state = der Zustand der rekurrenten Schichten steht nicht in dieser Konfiguration und ist nicht mitgezählt
said-tied = kein `tie_word_embeddings`: Die Ausgabeprojektion ist das Embedding
said-untied = kein `tie_word_embeddings`: Die Ausgabeprojektion ist nicht das Embedding
said-indexer = der Cache für den Index der dünnen Attention (`index_topk`) ist nicht mitgezählt
said-multi-token = Schichten zur Vorhersage mehrerer Tokens sind nicht mitgezählt: Sie werden nur mit spekulativem Dekodieren geladen
said-window-from = `sliding_window` gilt ab Schicht { $layer }
said-16-bits = kein `torch_dtype`: 16 Bit
said-32-bits = der Checkpoint hat 32 Bit, vLLM lädt ihn mit 16, sofern nicht `--dtype float32` gesetzt ist
said-not-quantized = Embeddings, Ausgabeprojektion, Normen und Router sind nicht quantisiert

## Befehle, die anders geschrieben werden

said-value = „{ $value }“ passt nicht zu { $option }: { $why }
said-choice = „{ $value }“ passt nicht zu { $option }. Möglich sind: { $values }
said-unexpected = „{ $word }“ gehört hier nicht hin
said-required = es fehlt: { $names }
said-span = möglich ist 1s bis 31d
said-duration = eine Dauer wird erwartet, etwa 30s, 5m, 1d
said-expire-which = `silence expire`: Welche Stummschaltung? `silence list` zeigt die Kennungen
said-silence-long = Wie lange? Zum Beispiel `silence { $what } 1h`

## Was geschah

said-story-alert-fires = Der Alarm { $name } feuert
said-story-alert-fires-for = Der Alarm { $name } feuert für { $n } Reihen
said-story-alert-ended = Der Alarm { $name } endete
said-story-alert-ended-for = Der Alarm { $name } endete für { $n } Reihen
said-story-reached = { $title } erreichte { $value } (gefragt: { $when })
said-story-told-first = Alertmanager meldete es
said-story-told-new = Alertmanager meldete neue Alarme
said-story-told-fewer = Alertmanager meldete, dass einige Alarme endeten
said-story-told-again = Alertmanager meldete, dass es wieder feuert
said-story-told-over = Alertmanager meldete, dass nichts mehr feuert
said-story-joined = Viele feuern zugleich: in eine Sammelnachricht aufgenommen
said-story-diagnosed-none = Diagnose: Keine Ursache sticht hervor
said-story-diagnosed = Diagnose mit Ursache { $id }
said-story-posted = Die Nachricht wurde gesendet: { $sink }
said-story-deleted = Die Nachricht wurde von jemandem gelöscht
said-story-given-up = Eine Nachricht wurde aufgegeben: { $why }
said-story-took = Jemand kümmert sich
said-story-asked-again = Jemand ließ neu diagnostizieren
said-story-right = Jemand fand die Ursache richtig
said-story-wrong = Jemand fand die Ursache falsch
said-story-silenced = Jemand schaltete es stumm
said-story-unsilenced = Jemand beendete eine Stummschaltung
said-story-escalated = Jemand eskalierte es
said-story-verified = Eine Abhilfe wurde nachgeprüft
said-story-did = { $what } ({ $detail })
said-without-cluster = { $why }; Diagnosen und Pakete kommen ohne dessen Logs und Ereignisse aus
