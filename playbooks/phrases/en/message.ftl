### What is said about an incident and its diagnosis.

## Words

verdict-likely = likely
verdict-possible = possible
verdict-unlikely = unlikely
verdict-undetermined = cannot tell
verdict-ruled-out = ruled out
verdict-so-far = { $verdict } so far
verdict-sure = { $verdict }, { $percent }

and-more = { $shown } and { $n } more
change = { $now } ({ $factor }, was { $was })
change-none = unchanged at { $now }
change-from-nothing = { $now } (was { $was })
change-of-peers = { $now } (others { $others })
fact-direct = { $fact } (read directly)
# The value was the same in the minutes before the symptom began.
fact-as-before = { $fact }, as before this began
fact-none = { $title }: none

## The first line: what, who is affected, why

state-critical = CRITICAL
state-warning = WARNING
state-firing = FIRING
between = between { $low } and { $high }
or-more = { $low } or more
value-within = { $value } ({ $range })
alert-graded = { $name } (severity { $severity })
expected-unknown = not known
alert-ungraded = { $name } (no severity label)
state-resolved = RESOLVED after { $duration }
asked-confirmed = Confirmed
asked-absent = Not confirmed
asked-no-data = Cannot tell
why-possibly = possibly { $chain }
why-nothing = no cause stands out
why-absent = not confirmed: { $facts }
why-absent-alone = not confirmed
why-no-data = no data
why-no-data-then = no data at this time
why-nowhere = no such pool
why-in-part = a part of the data is missing

## The symptom and who is affected

part-missing = **A part of the data is missing**: { $said }. The results below cover only the part that answered.
part-missing-store = Look first at the store { $store }: does it run, and can the server of the queries reach it?
part-missing-stores = Look first which store does not answer: the server of the queries lists its stores and logs their errors.
symptom-in-part = **Cannot tell**: the symptom may be in the missing part.
symptom-in-part-seen = **Cannot tell**: the symptom may be in the missing part. Seen: { $facts }.
symptom-confirmed = **Confirmed**: { $facts }
symptom-was = **It was**: { $facts }
promise-ttft = Promised: { $share } of first tokens within { $within }.
promise-inter-token = Promised: { $share } of tokens within { $within } of the one before.
promise-request = Promised: { $share } of requests within { $within }.
promise-errors = Promised: { $share } of requests without a server error.
budget-spent = Of the 30-day error budget, { $spent } went in { $took } ({ $left }).
budget-spent-of-less = Of the error budget of { $reach }, { $spent } went in { $took } ({ $left }); the recorded data reach no further back.
budget-left = { $left } left
budget-none-left = nothing left, { $used } is spent
symptom-absent = **Not confirmed**: { $facts } — it may have ended, or the alert is stricter than this check.
symptom-absent-only = **Not confirmed**: { $facts }.
condition-value = The alert's own expression holds at this time; its value is { $value }{ $known ->
    [0] {""}
   *[other] ; it was { $usual } in the hours before
 }.
condition-holds = The alert's own expression holds at this time.
condition-gone = The alert's own expression does not hold at this time.
symptom-no-data = **Cannot tell**: no data for { $facts }.
symptom-no-data-why = **Cannot tell**: no data for { $facts }, because { $why }.
radius-pool = in a pool of { $total ->
    [one] 1 replica
   *[other] { $total } replicas
 }
radius-all = { $total ->
    [one] on the only replica
   *[other] on all { $total } replicas
 }
radius-some = on { $n } of { $total ->
    [one] 1 replica
   *[other] { $total } replicas
 }: { $names }
hits-all = { $total ->
    [one] Affects the only replica.
   *[other] Affects all { $total } replicas.
 }
hits-some = Affects { $n } of { $total ->
    [one] 1 replica
   *[other] { $total } replicas
 }: **{ $names }**
hits-on = { $hits } on { $places }
hits-share = { $hits }, { $share } of the traffic
pools-unnamed =
    { $n ->
        [one] **No pool is named.** One is in trouble, { $pool }:
       *[other] **No pool is named.** { $n } are in trouble, each for itself; the rest of this message is about { $pool }:
    }
pools-one = { $pool }: { $chain } ({ $share })
pools-one-unexplained = { $pool }: { $chain }, no cause stands out
screened-unknown = All symptoms of this pool were checked. The clearest one: { $title }.
screened-absent = This pool does not show the alert's symptom ({ $asked }) now, but another one: { $title }.
screened-no-data = There is no data for the alert's symptom ({ $asked }). This pool shows: { $title }.
screened-unexplained = The alert's own symptom ({ $asked }) is there, but another one explains more: { $title }.
screened-quiet =
    { $n ->
        [one] Nothing is abnormal in this pool: one symptom was checked.
       *[other] Nothing is abnormal in this pool: { $n } symptoms were checked.
    }
screened-unknown-change =
    { $n ->
        [one] **The alert's own value has changed**, and the one symptom of this pool that was checked does not show why.
       *[other] **The alert's own value has changed**, and none of the { $n } symptoms of this pool that were checked shows why.
    }
alert-unknown = No playbook knows this alert.
screened-unclear = No symptom of this pool is clear, and no cause was found; { $n } were checked.
screened-in-part = **Cannot tell**: the abnormal data may be in the missing part.
screened-blind = **Cannot tell**: no symptom of this pool could be checked.
screened-blind-why = **Cannot tell**: no symptom of this pool could be checked, because { $why }.
screened-unmeasured =
    { $more ->
        [0] **Cannot tell**: none of the { $n } symptoms that could be measured holds, but these could not be: { $what }.
       *[other] **Cannot tell**: none of the { $n } symptoms that could be measured holds, but these could not be: { $what }; and { $more } more.
    }
screened-part-why = **Cannot tell**: not all symptoms of this pool could be checked, because { $why }.
nowhere = **Cannot tell**: no { $what } { $value }; there is { $near }.
nowhere-more = { $near } and { $n } more
nowhere-then = **Cannot tell**: there is no data of this pool at { $at }. There is data from { $from } to { $to }.
data-then = The pool has no data at { $at }. There is data from { $from } to { $to }.
screened-also = Also abnormal here: { $also }.
screened-slight = Beyond a threshold, but only slightly or as before: { $slight }.
latency-parts = { $title } take { $seconds } on average: { $parts }.
latency-parts-were = { $title } took { $seconds } on average: { $parts }.
latency-part = { $seconds } { $where }
latency-rest = { $seconds } elsewhere
latency-explained-by = "{ $title }" explains { $share } of this time.
latency-explained = { $link }, explains { $share } of this time
looking = **Looking at the evidence …**
no-playbook = No playbook for this alert
silent = Alerts may not arrive
silent-means = An Alertmanager does not send its always-firing alert, so its other alerts may not reach us.
silent-runs = 1. Check that this Alertmanager and its Prometheus are running.
silent-route = 2. Check that its route for this alert leads to us: receiver, address, token, `repeat_interval`.
silent-rule = 3. Check that the rule of this alert fires in Prometheus.
silent-over = This silence is over
silent-over-means = The Alertmanager sends its always-firing alert again, or the configuration no longer expects it. Alerts from the time between may be missing here.
self-test = This is a self test
self-test-means = Somebody ran `llm-diagnose selftest`. Nothing is wrong, and nobody is called. Its pool does not exist, so there is no cause.
no-playbook-why = Nothing was diagnosed: no playbook knows this alert, and its labels name no pool. Add a label such as `namespace` or `model_name`, or the label `playbook`.

## Why

why = Why
why-none = No cause stands out: no known cause has enough evidence.
nearest = Closest known cause: { $cause }
chain-link = ← **{ $title }** — { $verdict }: { $facts } ({ $agree } of { $known } checks agree)
chain-link-blind = ← **{ $title }** — { $verdict }: { $facts } ({ $agree } of { $known } checks agree, { $unknown } without data)
chain-short = ← **{ $title }**
chain-short-since = ← **{ $title }**, began { $at }
chain-root = ← **{ $title }** — { $verdict }
chain-root-since = ← **{ $title }** — { $verdict }, began { $at }
rollout-at = **Changed** by the last rollout of { $workload }, { $at }:
rollout-back = **Changed** by the last rollout of { $workload }, which went back to an earlier revision:
rollout-by = (deployed by { $tool }: { $name })
rollout-by-chart = (deployed by { $tool }: { $name }, chart { $chart })
rollout-change = { $what }: { $before } → { $after }
rollout-new = { $what }: new, { $after }
rollout-new-flag = { $what }: new
rollout-gone = { $what }: removed, it was { $before }
rollout-no-flag = { $what }: removed
rollout-secret = { $what }: another value, which is not shown
rollout-more = { $n } more
evidence-for = For: { $facts }; { $agree } of { $known } checks agree
why-sure = How sure this is
evidence-against = Against: { $facts }
evidence-unknown = Unknown: { $titles }
not-those = Ruled out: { $titles }
last-time = **Same cause here last time**: { $at }, for { $duration }.
last-time-done = Done then: { $steps }{ $soon }.
last-time-step = Step done: { $step }
last-time-soon = resolved { $soon } later
last-time-verified = Verified then: { $result }.
last-time-right = The cause was judged right.
last-time-wrong = The cause was judged **wrong**: { $detail }.
compared-same-time = Compared with the same time { $ago } earlier.
compared-hours-before = Compared with the hours before the incident: the pool has no data at the same time a day or a week earlier.
compared-since-start = Compared with the minutes before the incident: the pool has no earlier data at the times that were tried.
compared-peers = There is no past to compare with; replicas are compared with each other.
compared-nothing = Nothing was compared with the past.
times-misfit = The times do not fit: "{ $cause }" began at { $at }, after "{ $effect }" at { $before }. So it may not be the cause, or its metric reacted late.
began = Began: { $story }
also = Also to be considered: { $causes }
other-cause = { $title } ({ $verdict })

## What to do

do-now = Do now
do-now-some = Do now ({ $shown } of { $n })
lasting = So that it does not come back
step-worked = { $step } — fixed when { $check }
step-cost = { $step } — { $cost }
# The cost of a restart now. $parts are the next ones, joined.
restart-named = Restarts { $replica }, 1 of { $of } replicas: { $parts }
restart-each = Restarts { $of } replicas one after another: { $parts }
restart-only = Restarts the only replica, and nothing serves until it has loaded: { $parts }
restart-running = { $n ->
    [one] 1 request in flight ends
   *[other] { $n } requests in flight end
}
restart-running-each = each ends about { $n ->
    [one] 1 request in flight
   *[other] { $n } requests in flight
}
restart-hits = its prefix cache (hits of the pool: { $hits }) is lost
restart-others = the other { $n } use about { $kv } of their KV cache meanwhile
restart-others-full = the other { $n } cannot carry the load: it takes about { $kv } of their KV cache
restart-node = its node { $node } takes no new pods already
step-source = { $step } ({ $source })
source = source

## What is not known

ruled-out = Ruled out
ruled-out-share = { $title } — explains { $share } of this time
ruled-out-because = { $title } — { $fact } (needs { $when })
ruled-out-rest = Also ruled out: { $titles }
ruled-out-rest-more = Also ruled out: { $titles }; and { $n } more
unchecked = What could not be checked
unchecked-reason = { $titles }: { $why }
unchecked-enable = { $reason } → { $enable }
and-others = and { $n } more
while-looking = Notes on this diagnosis
not-looked-at = Not checked: { $causes } (Prometheus did not answer in time)

## Other open incidents

open-others = Open at the same time
open-here = In this pool: { $what }, alert since { $at }
open-in-place = In the same namespace: { $what }{ $pool }, alert since { $at }
open-on-node = On the same node { $node }: { $what }{ $pool }, alert since { $at }
open-of-pool = { " " }in { $pool }
open-elsewhere = another incident

## Alerts, and what else is known

alerts = Alerts
alerts-firing = { $n } firing: **{ $names }**
alerts-resolved = { $n } resolved: **{ $names }**
alerts-left-out = { $n ->
    [one] 1 more alert was left out: too many for one notification
   *[other] { $n } more alerts were left out: too many for one notification
}
reason-first = new
reason-new-alerts = new alerts
reason-fewer-alerts = fewer alerts
reason-still-firing = still firing
reason-resolved = resolved
reason-refired = fires again
reason-stale = nothing from Alertmanager for a long time
reason-unreadable = its record could not be read: a new incident took its place
reason-readable-again = the group can be read again: it has an incident of its own
since-reason = { $id } · alert since { $since } · { $reason }
refired = re-fired { $n ->
    [one] once
   *[other] { $n } times
 }
flapping = **Flapping**: { $what }. Each time it may be the same fault that was never fixed.
flapping-refired = it came back { $n ->
    [one] once
   *[other] { $n } times
 }
flapping-seen = { $n } incidents of these alerts in the last 24 hours
meanwhile = **During the incident** { $requests } requests arrived{ $bad }.
meanwhile-failed = , { $n } of them failed ({ $share })
meanwhile-slow = , { $n } were slow ({ $share })
meanwhile-failures = **During the incident** { $n } requests failed.
foot = { $playbook } at { $at }, { $queries ->
    [one] 1 query
   *[other] { $queries } queries
 } in { $took }
foot-engines = { $foot }, { $engines }

link-prometheus = Prometheus
link-runbook = Runbook
link-dashboard = Dashboard
link-silence = Silence
link-incident = Incident

no-incidents = No incidents yet.

## What people did

note-acknowledge = Acknowledged by { $who } at { $at }
note-snooze = Snoozed until it gets worse by { $who } at { $at }
note-unsnooze = Snooze ended by { $who } at { $at }
maintenance-note = Maintenance until { $until }: nobody is mentioned, and no pager is called
note-again = Run again by { $who } at { $at }
note-note = Note of { $who } at { $at }
note-right = Right cause, says { $who } at { $at }
note-wrong = **Wrong cause**, says { $who } at { $at }; it was
note-silence = Silenced by { $who } at { $at }
note-expire = Silence ended by { $who } at { $at }
note-escalate = Escalated by { $who } at { $at }
note-done = Step done by { $who } at { $at }
note-verify = Fix checked for { $who } at { $at }
note-verify-alone = Fix checked at { $at }
note-detail = { $note }: { $detail }

## Buttons

button-acknowledge = Acknowledge
button-snooze = Snooze until worse
button-unsnooze = End snooze
button-again = Run again
button-evidence = Show evidence
button-silence = Silence
button-escalate = Escalate
button-escalate-confirm = The configured contact is called now, with this incident and its diagnosis. Continue?
button-right = Right cause
button-wrong = Wrong cause
button-done = Done
button-verify = Verify
button-digest = Show incidents
button-bundle = Bundle
