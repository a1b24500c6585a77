### Was in README.txt eines Bündels steht.

readme-about = Gemacht von llm-diagnose { $version } am { $made }, über die Zeit von { $from } bis { $to }.
readme-page = zuerst lesen: jeder Browser öffnet es, ohne Netz
readme-text = dasselbe als Text
readme-tickets = die Formulare der Hersteller, ausgefüllt, zum Einfügen
readme-summary = dasselbe für Programme
readme-series = die Metriken; `llm-diagnose bundle open` lädt sie aus der ganzen Datei und urteilt noch einmal
readme-queries = jede gestellte Abfrage mit ihrem Ergebnis
readme-raw = was jede Quelle gesagt hat
readme-complete = Es fehlt nichts von dem, was gefragt werden sollte.
readme-incomplete = Es ist nicht vollständig. Es fehlt oder ist gekürzt:
readme-kept = Geheimnisse wurden absichtlich darin gelassen: niemandem geben, der sie nicht kennen darf.
