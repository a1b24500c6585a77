### The report of an incident: its page, and report.html of a bundle.

## The first screen

report-utc = Times are UTC
report-incomplete = incomplete
report-incomplete-why = Not every part could be made. What failed, and why, stands here; everything else is whole.
report-not-diagnosed = It was over before it was diagnosed.
report-since = Since
report-at = Looked at
report-lasts = for { $time } now
report-lasted = lasted { $time }
report-lasted-then = still open after { $time }, when this was made
report-hurt = Who is hurt
report-unknown = not known yet
report-whole-pool = the pool
report-all = { $total ->
    [one] the only replica
   *[other] all { $total } replicas
 }
report-some = { $n } of { $total } replicas
report-sure = How sure
report-agree = { $agree } of { $known } checks agree
report-no-cause = no cause yet
report-on-it = Who is on it
report-nobody = nobody yet
report-root = Cause
report-mechanism = Mechanism
report-symptom = What users feel
report-alerted = Alert
report-from = since
report-escalate = Who takes over: { $whom }
report-log-first = First error in the logs:
report-nothing-now = Nothing is known to help at once.
report-more-steps = { $n ->
    [one] One more step
   *[other] { $n } more steps
 }
report-worked = Worked when { $check }.
report-contents = Contents
report-made = Made at { $at } by llm-diagnose { $version }.
report-window = About

## Parts

report-picture = What decided, over time
report-no-picture = No picture: Prometheus did not answer in time, or no longer has these series.
report-evidence = What was checked
report-direct = read directly
report-not = What it is not
report-cause = Cause
report-because = Because
report-needed = Would need
report-unchecked = What could not be checked
report-unchecked-lead = Without data these speak neither for nor against.
report-enable = To turn it on:
report-timeline = Timeline
report-between = { $n } in between
report-kind-alert = alert
report-kind-onset = began
report-kind-restart = restart
report-kind-presence = metrics
report-kind-rollout = rollout
report-kind-silence = silence
report-kind-message = message
report-kind-act = act
report-kind-log = log
report-kind-event = event
report-logs = Logs
report-log-silent = nothing known in it
report-log-do = Do:
report-log-line = line { $line }, { $n ->
    [one] once
   *[other] { $n } times
 }
report-rank-root = root
report-rank-sign = sign
report-rank-secondary = follows from something earlier
report-rank-benign = harmless
report-topology = Replicas and where they run
report-no-node = node not known
report-not-hit = { $n ->
    [one] The replica on a machine without trouble
   *[other] { $n } replicas on machines without trouble
 }
report-affected = affected
report-alerts = Alerts
report-fires = fires
report-ended = ended
report-rules = Alerting rules
report-rule-for = Must hold for { $time }.
report-parts = Parts of this bundle
report-part = Part
report-stage = State
report-note = What it holds
report-size = Size
report-stage-waiting = waiting
report-stage-running = being made
report-stage-done = whole
report-stage-partial = partial
report-stage-failed = failed
report-stage-skipped = left out
report-redacted = What was taken out
report-file = File
report-rule = Rule
report-count = Times
report-tickets = Tickets to paste
report-tickets-lead = Text for those who take over, with the fields that they ask for.
report-bundles = Bundles of it
report-bundles-how = `/llm-diagnose bundle { $incident }` in Slack, or `llm-diagnose bundle { $incident }` beside the service, puts everything about it into one file: this report, the series, logs and what the cluster says, with secrets taken out.
report-no-bundles = None is kept here yet.
report-no-numbers = No numbers beyond the diagnosis for now: Prometheus did not answer in time. They come with the next update.

## The seven questions

report-answers = What engineers ask
report-not-known = Open:
report-not-known-bundle = Not known here: a bundle asks the engines, the cluster and Prometheus for it.
report-q-model = Which model, with which arguments?
report-q-hardware = On which hardware?
report-q-metrics = Which numbers, before, during and after?
report-q-workload = Which workload?
report-q-deployment = How is it deployed?
report-q-versions = Which versions?
report-q-goal = What was expected, and what came?
report-served-as = Served as
report-weights = Weights
report-settings = Settings that the engine tells
report-nodes = Machines
report-machines = { $n ->
    [one] One machine
   *[other] { $n } machines
 }
report-read-from = read from { $source }
report-interconnect = Interconnect
report-before = Before
report-during = During
report-after = After
report-change = Change
report-untold = { $n ->
    [one] One quantity that nobody tells
   *[other] { $n } quantities that nobody tells
 }
report-input = Prompt length.
report-output = Answer length.
report-spread = { $count } requests: mean { $mean }, p50 { $half }, p90 { $most }, p99 { $nearly }.
report-spread-earlier = Earlier: mean { $mean }, p50 { $half }.
report-buckets = Buckets
report-ready = { $ready } of { $wanted } ready
report-engines = Engines
report-objects = Objects
report-what = What
report-version = Version
report-source = Read from
report-expected = Expected
report-limit = Alarm threshold
report-actual = Actual
report-not-met-since = Not met since
report-changed = What changed before
