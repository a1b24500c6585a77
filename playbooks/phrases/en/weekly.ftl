### The weekly summary of a channel.

weekly-headline = Week in { $channel }: { $incidents ->
    [0] no incident
    [one] 1 incident
   *[other] { $incidents } incidents
 } ({ $before } the week before){ $open ->
    [0] {""}
   *[other] , { $open } still open
 }
daily-headline = Day in { $channel }: { $incidents ->
    [one] 1 incident
   *[other] { $incidents } incidents
 } below the severity of this channel{ $open ->
    [0] {""}
   *[other] , { $open } still open
 }
weekly-first = First message: median { $median }, at most { $longest }
weekly-acknowledged = Acknowledged: { $n } of { $incidents }, median { $median }, at most { $longest }
weekly-nobody = Acknowledged: none
weekly-over = Over: { $n } of { $incidents }, median { $median }, at most { $longest }
weekly-refired = Fired again after their end: { $n } of { $incidents }
weekly-stale = Closed because Alertmanager fell silent: { $n } of { $incidents }
weekly-numbers = How fast
weekly-causes = Causes
weekly-cause = { $n } × { $cause }
weekly-causes-more = … and { $n } more { $n ->
    [one] cause
   *[other] causes
 }
weekly-unexplained = { $n } × { $newest }
weekly-unexplained-newest = no cause named
weekly-returns = Returning causes
weekly-return = { $cause }: { $n ->
    [one] once
   *[other] { $n } times
 } this week{ $before ->
    [0] {""}
   *[other] , { $before } before, last on { $day }
 }
weekly-return-done = { $line }. Done last: "{ $step }"
weekly-return-verified = { $line }; verified: { $result }
weekly-return-undone = { $line }. No step was marked as done
weekly-open = Still open
weekly-open-line = { $what }, since { $since }
weekly-open-unnamed = an incident without a cause
weekly-open-more = … and { $n } more
weekly-blind = Still blind
weekly-blind-line = { $n } { $n ->
    [one] incident
   *[other] incidents
 } without a cause { $n ->
    [one] lacks
   *[other] lack
 } { $what }
weekly-blind-pool = { $n } { $n ->
    [one] incident
   *[other] incidents
 } without a cause: { $what }
weekly-blind-enable = { $line } → { $enable }
weekly-span = Incidents that began from { $since } to { $until }
weekly-limit = The times and causes are of the newest { $n }
weekly-list = all incidents
