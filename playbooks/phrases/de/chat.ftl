### Antworten an Menschen in Slack.

busy = Gerade kommen zu viele Fragen. Bitte in ein paar Sekunden noch einmal versuchen.
