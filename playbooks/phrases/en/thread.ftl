### What threads and digests say.

thread-over = Over: nothing fires any more.
thread-more-alerts = { $count ->
    [one] One more alert fires.
   *[other] { $count } more alerts fire.
}
thread-more-replicas = { $count ->
    [one] One more replica is hit.
   *[other] { $count } more replicas are hit.
}
thread-cause = Cause now: **{ $cause }**

digest-headline = STORM · { $count } incidents, { $open } open · { $topic }
digest-over = STORM OVER · { $count } incidents · { $topic }
digest-other = other topics
digest-incidents = Incidents
digest-more = …and { $count } more
digest-why = Since { $since } more incidents come than can be read one by one, so this message speaks for them.
