### Antworten an Menschen in Slack.

busy = Gerade werde ich zu viel gefragt. Versuch es in ein paar Sekunden noch einmal.
