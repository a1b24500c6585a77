### What `backtest` prints, and its page.

backtest-title = Backtest
backtest-headline = { $firings ->
    [0] no firing
    [one] 1 firing
   *[other] { $firings } firings
 }
backtest-stopped = Not complete: { $why }.
backtest-nothing-found = nothing to change
backtest-nothing-known = nothing found, but it did not see everything
backtest-counted = { $n } { $outcome }
backtest-limits = Not seen
backtest-noise-found = { $n ->
    [one] 1 rule is noise
   *[other] { $n } rules are noise
 }
backtest-unalerted-found = { $n ->
    [one] 1 symptom without an alert
   *[other] { $n } symptoms without an alert
 }
backtest-range = { $from } to { $to }
backtest-confirmed = confirmed
backtest-no-cause = no cause
backtest-other-symptom = another symptom
backtest-nothing-abnormal = nothing abnormal
backtest-not-judged = not judged
backtest-blind = blind
backtest-noise = noise: { $n } of { $judged }
backtest-noise-of = noise: { $n } of { $judged } judged, of { $all }
backtest-rules = Rules
backtest-pools = Pools
backtest-rule = rule
backtest-pool = pool
backtest-no-pool = (no pool named)
backtest-total = firings
backtest-after = after
backtest-named = cause named
backtest-noise-note = Noise: the symptom of such a rule never held when it fired, and at so many of its judged firings nothing else was abnormal either. Make it stricter, or remove it.
backtest-not-judged-note = Not judged: the alert selects no playbook, so its problem cannot be judged. A label `playbook: <id>` on the rule selects one.
backtest-unalerted = Abnormal without any alert
backtest-unalerted-line = **{ $title }** in { $pool }: { $times ->
    [one] once
   *[other] { $times } times
 }, { $duration } in all; { $looked } diagnosed, { $confirmed } confirmed
backtest-alerted-times = { $n ->
    [one] Once more a symptom held while an alert of its pool fired.
   *[other] { $n } more times a symptom held while an alert of its pool fired.
 }
backtest-shipped-alerts = shipped alerts for it: { $alerts }
backtest-no-shipped-alert = there is no shipped alert for it
backtest-episode = { $at } for { $duration }: { $headline }
backtest-thresholds = Thresholds: how often they would have fired
backtest-steps = Counted from values { $step } apart: shorter events may be missing.
backtest-ladder = { $title } for { $hold }
backtest-ladder-of = { $title } for { $hold }, { $pools }
backtest-rung = { $threshold } { $times ->
    [0] never
    [one] once
   *[other] { $times } times
 }
backtest-rung-shipped = { $threshold } (shipped) { $times ->
    [0] never
    [one] once
   *[other] { $times } times
 }
backtest-threshold = threshold
backtest-times = times
backtest-lasted = in all
backtest-shipped = shipped as
backtest-picture = { $title }: the worst value of its pools
backtest-shares = precision { $precision }, recall { $recall }
backtest-accuracy = Causes, compared with the known ones
backtest-cause = cause
backtest-precision = precision
backtest-recall = recall
backtest-share = { $percent } % ({ $right } of { $of })
backtest-firings = Firings
backtest-firings-newest = Firings, the newest { $n }
backtest-per-day = { $days ->
    [one] Firings per day
   *[other] Firings per { $days } days
 }
backtest-started = started
backtest-outcome = outcome
backtest-message = message
backtest-id = id
backtest-missing = missing: { $what }
backtest-truth = known cause: { $cause }
backtest-all = all { $n } firings: --output json, or --html FILE
backtest-left-out = Left out
backtest-elsewhere = not about a pool: { $rules }
backtest-outside = outside the range: { $rules }
backtest-before = began before the range: { $rules }
backtest-over = more than --max-firings: { $rules }
backtest-count = { $name } ({ $n })
backtest-problems = Problems
backtest-foot = { $queries } of at most { $most } queries in { $took }
backtest-foot-resumed = { $queries } of at most { $most } queries in { $took }; { $resumed } firings were diagnosed before the interruption
