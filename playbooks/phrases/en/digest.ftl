### A storm: many incidents in one message.

digest-storm = storm of { $n } { $n ->
    [one] incident
   *[other] incidents
 }
digest-over = RESOLVED
digest-various = various symptoms
digest-cause = ← { $cause }
digest-cause-most = ← { $cause } ({ $n } of { $all })
digest-counts = { $firing } firing{ $critical ->
    [0] {""}
   *[other] {" "}({ $critical } critical)
 }{ $resolved ->
    [0] {""}
   *[other] , { $resolved } resolved
 }
digest-title = Symptoms, worst first
digest-line = { $line } — { $firing } firing{ $critical ->
    [0] {""}
   *[other] {" "}({ $critical } critical)
 }{ $resolved ->
    [0] {""}
   *[other] , { $resolved } resolved
 }, since { $since }
digest-unreadable = { $n ->
    [one] 1 incident cannot
   *[other] { $n } incidents cannot
 } be read from the store: see the log of llm-diagnose.
digest-more = … and { $n } more { $n ->
    [one] line
   *[other] lines
 } with { $incidents } { $incidents ->
    [one] incident
   *[other] incidents
 }
digest-times = first at { $oldest }, last at { $newest }
