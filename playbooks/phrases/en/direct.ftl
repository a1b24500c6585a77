### What is said of exporters that were read themselves.

direct-no-prometheus = Without Prometheus: read { $read } directly; no past to compare with, no replicas but these
direct-no-answer = Prometheus did not answer; read { $read } directly: current values only
direct-in-part = Prometheus answered in part only; read { $read } directly: current values only
direct-no-values = Prometheus has no current values of some exporters; read { $read } directly: current values only
direct-asked = As requested, without waiting for the next scrape; read { $read } directly: current values only
direct-engines = { $n } { $n ->
    [one] engine
   *[other] engines
 }
direct-engines-of = { $n } of { $known } { $known ->
    [one] engine
   *[other] engines
 }
direct-gpus = { $n } GPU { $n ->
    [one] exporter
   *[other] exporters
 }
direct-gpus-of = { $n } of { $known } GPU { $known ->
    [one] exporter
   *[other] exporters
 }
direct-both = { $engines } and { $gpus }
direct-remark = { $names } { $what }
direct-more-remarks = and { $n } more { $n ->
    [one] remark
   *[other] remarks
 } on exporters
direct-left-out = { $n } more { $n ->
    [one] exporter was
   *[other] exporters were
 } left out: too many to read at once
