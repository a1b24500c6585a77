### What the thread of an incident is told when something changed.

thread-resolved = **resolved** after { $duration }
thread-refired = **fires again**
thread-flaps = **fires again**, { $n } times by now: it flaps, so further ends and returns only change the message above
thread-critical = **critical now**
thread-critical-over = nothing critical fires any more
thread-alerts-more = +{ $n } { $n ->
    [one] alert
   *[other] alerts
 } ({ $all } now)
thread-alerts-fewer = { $n } { $n ->
    [one] alert
   *[other] alerts
 } ended ({ $all } left)
thread-confirmed = the symptom is confirmed
thread-absent = the symptom is gone, the alert still fires
thread-no-data = the evidence is missing now
thread-replicas-more = +{ $n } { $n ->
    [one] replica
   *[other] replicas
 } ({ $hit } of { $total })
thread-replicas-fewer = { $n } { $n ->
    [one] replica
   *[other] replicas
 } fewer ({ $hit } of { $total })
thread-cause-now = cause now: **{ $title }**
thread-cause-found = cause: **{ $title }**
thread-cause-likely = now likely: **{ $title }**
thread-cause-gone = no cause stands out any more
