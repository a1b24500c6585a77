### Answers to people in Slack.

busy = Too many requests at once. Try again in a few seconds.
