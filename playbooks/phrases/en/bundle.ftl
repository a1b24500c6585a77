### What is said about bundles: how far one is, what is in it, where it can be had.

bundle-waits = The bundle waits for its turn: others are being made
bundle-progress = Making the bundle: { $over } of { $all ->
    [one] 1 part
   *[other] { $all } parts
  } over
bundle-parts-done = **done** { $parts }
bundle-parts-running = **running** { $parts }
bundle-parts-partial = **cut short** { $parts }
bundle-parts-failed = **failed** { $parts }
bundle-parts-skipped = **skipped** { $parts }
bundle-complete = The bundle of { $of } is complete: { $size }
bundle-incomplete = The bundle of { $of } is made, but not complete: { $size }
bundle-here = The file is uploaded: open `report.html` in it first.
bundle-download = Download the bundle
bundle-link = { $link }: good until { $until }, for whoever has the link.
bundle-disk = It lies on the disk of llm-diagnose as { $path }. For a link to it set `public_url`; until then copy it from there.
bundle-file = It is in { $path }: open `report.html` in it first, or hand on the file.
bundle-too-large = Bundles above { $most } are not uploaded.
bundle-upload-failed = Slack did not take the file: { $why }
bundle-missing = What is missing or cut short
bundle-missing-part = **{ $part }**: { $why }
bundle-why-unknown = nothing is known of why
bundle-without = Without what is not configured or does not apply: { $parts }
bundle-redacted = { $n ->
    [one] 1 secret or name was
   *[other] { $n } secrets or names were
  } taken out of { $files ->
    [one] 1 file
   *[other] { $files } files
  }: { $rules }
bundle-redacted-nothing = Nothing was taken out.
bundle-title = Bundle of incident { $id }
bundle-none = There is no bundle of { $id }: { $why }
bundle-busy = Too many bundles are being made at once: ask again in a minute.
bundle-quiet = A pool without anything that an alert would fire for
