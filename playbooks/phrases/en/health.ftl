### The fleet's health, in a terminal, in chats and on the page. Short words stand in columns: at most as long as in English.

health-healthy = healthy
health-warning = WARNING
health-critical = CRITICAL
health-unknown = unknown
health-pools = { $n ->
    [one] 1 pool
   *[other] { $n } pools: { $states }
 }
health-left-out = { $n } more { $n ->
    [one] pool was
   *[other] pools were
 } left out: ask for one namespace or model to see them
health-no-name = pool without labels
health-of-server = { $pool } (Prometheus { $server })
health-replicas = { $n ->
    [0] no replica for an hour
    [one] 1 replica
   *[other] { $n } replicas
 }
column-state = State
column-pool = Pool
column-values = Values
column-warning = Warning
column-critical = Critical
column-playbook = Playbook
health-or = { $one } or { $other }
health-and = { $one } and { $other }
health-or-more = { $first } or { $n } more
health-together = only with { $all }
health-have-data = { $n } of { $of } checks have data
health-have-data-idle = { $n } of { $of } checks have data; no requests at present, so latencies and shares have no value
health-unseen = Checks without data
health-next = next
health-foot = Thresholds: the alert rules of the playbooks, which fire when one holds for minutes
health-foot-star = Thresholds: the alert rules of the playbooks, which fire when one holds for minutes; *: of the playbook's symptom, without an alert

coverage-title = Signals in Prometheus { $prometheus }
coverage-nothing = no engine and no exporter found
coverage-signals = { $found }; { $answer } of { $n } signals answer, { $unused } belong to features that are not in use, { $missing } are missing
coverage-playbooks = Playbooks with missing data
coverage-blind = no data
coverage-half-blind = partial data
coverage-lacks = lacks { $titles }

studies-title = Incidents of published studies that { $prometheus } could name
studies-named = { $study }: { $n } of { $of } incidents ({ $percent } %)
studies-addition = { $more } more: { $line }
studies-class-named = { $n } { $class }: { $by }
studies-class-unseen = { $n } { $class }: { $by }, without data here
studies-class-nothing = { $n } { $class }: nothing names it ({ $by })
studies-foot = At most: a class counts as named if the checks of one of its causes have data. Each addition is counted alone; a new exporter may lack single fields, which are named once it is there.
