### The report of an incident: its page, report.html and report.md of a bundle, and tickets.

## In short

report-summary = In short
report-utc = Times are UTC
report-incomplete = **Incomplete:** { $parts }.
report-incomplete-why = The reasons are under "Parts of this report"; all other parts are complete.
report-not-diagnosed = It ended before it was diagnosed.
report-since = Since
report-at = Checked at
report-lasts = for { $time } now
report-lasted = lasted { $time }
report-lasted-then = still open after { $time }, when this report was made
report-hurt = Affected
report-unknown = not known yet
report-whole-pool = the pool
report-all = { $total ->
    [one] the only replica
   *[other] all { $total } replicas
 }
report-some = { $n } of { $total } replicas
report-agree = { $sure }; { $agree } of { $known } checks agree
report-no-cause = no cause yet
report-absent = none: the symptom is not there
report-nothing = none: nothing is abnormal
report-on-it = Acknowledged by
report-nobody = nobody yet
report-alerted = Alert
report-contents = Contents
report-made = Made at { $at } by llm-diagnose { $version }, about { $from } – { $to }.

## Why, and what to do

report-root = Cause
report-mechanism = Mechanism
report-symptom = Effect on users
report-from = since
report-escalate = Escalate to: { $whom }
report-log-first = First error in the logs:
report-fixes = What to do
report-related = Related incidents
report-nothing-now = Nothing is known to help at once.
report-more-steps = { $n ->
    [one] One more step
   *[other] { $n } more steps
 }

## Tables

report-what = What
report-when = When
report-kind = Kind
report-source = Read from
report-state = State
report-between = { $n } in between
report-more-rows = { $n ->
    [one] One more row stands in summary.json.
   *[other] { $n } more rows stand in summary.json.
 }

## What happened

report-picture = Deciding signals over time
report-zoom = Zoom in: { $links }
report-no-picture = No picture: Prometheus did not answer in time, or no longer has these series.
report-timeline = Timeline (UTC)
report-kind-alert = alert
report-kind-onset = onset
report-kind-restart = restart
report-kind-presence = metrics
report-kind-rollout = rollout
report-kind-silence = silence
report-kind-message = message
report-kind-act = action
report-kind-note = note
report-kind-log = log
report-kind-event = event
report-logs = Findings in the logs
report-log-silent = Logs without known lines
report-log-do = **Do:** { $action }
report-log-line = line { $line }, { $n ->
    [one] once
   *[other] { $n } times
 }
report-replica = Replica
report-node = Node
report-gpus = GPUs
report-role = Role
report-affected = affected
report-hurt-replicas = Affected replicas
report-fires = firing
report-ended = ended
report-rules = Alerting rules
report-rule-for = Must hold for { $time }.
report-evidence = Everything that was checked
report-direct = read directly
report-unchecked-lead = Without data these neither support nor contradict a cause.

## What engineers ask

report-answers = Questions of engineers
report-goal = Expected and actual
report-expected = Expected
report-limit = Threshold
report-actual = Actual
report-not-met-since = Not met since { $at }.
report-changed = Changes before, and differences from normal
report-steady = { $n ->
    [one] One more changed little
   *[other] { $n } more changed little
 }
report-metrics = Numbers before, during and after
report-load = Load before, during and after
report-before = Before
report-during = During
report-after = After
report-change = Change
report-without-data = { $n ->
    [one] One metric without data
   *[other] { $n } metrics without data
 }
report-no-numbers = No numbers beyond the diagnosis for now: Prometheus did not answer in time. They come with the next update.
report-model = Model and engine arguments
report-served-as = Served as
report-weights = Weights
report-arguments = { $of } (read from { $source }):
report-settings = Settings that the engine reports
report-hardware = Hardware
report-nodes = Machines
report-machines = { $n ->
    [one] One machine
   *[other] { $n } machines
 }
report-read-from = read from { $source }
report-interconnect = Interconnect
report-workload = Workload
report-steps = { $n ->
    [one] 1 step now
   *[other] { $n } steps now
 }
report-tenants = Tenants
tenant-who = Tenant
tenant-requests = Requests (was)
tenant-tokens = Tokens (was)
tenant-failed = Failed
tenant-first-token = TTFT p99
tenant-caused = Most of the added load comes from { $who }: { $share } of the added tokens; all together send { $times } times as many as before.
tenant-suffered = Most failed requests are of { $who }: { $share } of its own, { $rate }.
report-input = Prompt length (ISL).
report-output = Answer length (OSL).
report-spread = { $count } requests: mean { $mean }, p50 { $half }, p90 { $most }, p99 { $nearly }.
report-spread-earlier = Earlier: mean { $mean }, p50 { $half }.
report-buckets = Buckets
report-deployment = Deployment
report-ready = { $ready } of { $wanted } pods ready
report-engines = Found by their metrics
report-objects = Objects
report-versions = Versions
report-version = Version
report-open = Not known, and how to find out
report-open-bundle = A bundle queries the engines, the cluster and Prometheus for more.

## What it is made of

report-parts = Parts of this report
report-part = Part
report-note = Contents
report-size = Size
report-took = Took
report-stage-waiting = waiting
report-stage-running = being made
report-stage-done = complete
report-stage-partial = incomplete
report-stage-failed = failed
report-stage-skipped = left out
report-redacted = Redactions
report-file = File
report-rule = Rule
report-count = How often
report-tickets = Tickets to paste
report-tickets-lead = Text for those who take over, with the fields that they ask for.
report-add = To add by hand: { $what }
report-bundles = Bundles of it
report-bundles-how = `/llm-diagnose bundle { $incident }` in Slack, or `llm-diagnose bundle { $incident }` beside the service, puts everything about it into one file: this report, the series, logs and what the cluster says, with secrets redacted.
report-no-bundles = There are no bundles here yet.
