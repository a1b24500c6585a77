### What is said about bundles: how far one is, what is in it, where it can be had.

bundle-waits = The bundle waits for its turn: others are being made
bundle-progress = Making the bundle: { $over } of { $all ->
    [one] 1 part
   *[other] { $all } parts
  } finished
bundle-parts-done = **done** { $parts }
bundle-parts-running = **running** { $parts }
bundle-parts-partial = **incomplete** { $parts }
bundle-parts-failed = **failed** { $parts }
bundle-parts-skipped = **skipped** { $parts }
bundle-complete = The bundle of { $of } is complete: { $size }
bundle-incomplete = The bundle of { $of } is made, but incomplete: { $size }
bundle-here = The file is uploaded: open `report.html` in it first.
bundle-download = Download the bundle
bundle-link = { $link }: good until { $until }, for whoever has the link.
bundle-disk = It is stored on the host of llm-diagnose at { $path }. Set `public_url` to get a link.
bundle-file = It is in { $path }: open `report.html` in it first, or hand on the file.
bundle-too-large = Bundles above { $most } are not uploaded.
bundle-upload-failed = Slack did not take the file: { $why }
bundle-missing = Missing or incomplete
bundle-missing-part = **{ $part }**: { $why }
bundle-why-unknown = the reason is unknown
bundle-without = Without what is not configured or does not apply: { $parts }
bundle-redacted = { $n ->
    [one] 1 secret or name was
   *[other] { $n } secrets or names were
  } redacted in { $files ->
    [one] 1 file
   *[other] { $files } files
  }: { $rules }
bundle-redacted-nothing = Nothing was redacted.
postmortem-title = Draft of the post-mortem { $id }
postmortem-made = The draft is in the thread of incident { $id }: the rest is for people to fill in.
postmortem-here = The draft of the post-mortem of incident { $id } is here: the rest is for people to fill in.
postmortem-none = There is no draft of the post-mortem of incident { $id }: { $why }
bundle-title = Bundle of incident { $id }
bundle-none = There is no bundle of { $id }: { $why }
bundle-busy = Too many bundles are being made at once: ask again in a minute.
bundle-quiet = A pool where no alert threshold is exceeded
