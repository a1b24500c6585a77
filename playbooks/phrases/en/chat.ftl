### Answers to people in Slack.

busy = Too much is asked of me at once. Try again in a few seconds.
