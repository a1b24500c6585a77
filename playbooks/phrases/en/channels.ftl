# A channel that does not take messages: told by a direct message.
refused-channel = I cannot post in { $channel }: Slack answers { $code }.
refused-meanwhile = Its incidents are shown in { $fallback } meanwhile.
refused-waits = **Its incidents are shown nowhere until this is fixed.** They wait, and nothing is lost.
refused-invite = Type { $invite } in the channel, or correct its name in the configuration. I post there as soon as I am in it.
refused-unarchive = Unarchive the channel, or name another one in the configuration.
refused-permit = Let the app post in the channel, or name another one in the configuration.
refused-token = The app or its token is the reason: `llm-diagnose doctor` says what to do.
