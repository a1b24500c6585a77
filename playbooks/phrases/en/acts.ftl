### What is said to somebody who presses a button, and what a thread hears of it.

too-often = That was a lot in one minute. Please wait a little. Requests until then are ignored.

# Who may not, and why.
refused-bot = Programs may not ask here.
refused-stranger = Only members of this workspace may ask here.
refused-guest = Guests may not ask here, unless `slack.act` in the configuration names them.
refused-gone = This account is closed.
refused-nobody = Nobody may do this yet: name people, user groups or channels in `slack.act` of the configuration.
refused-not-named = You can read, but only the people, user groups or channels in `slack.act` of the configuration may do this.
refused-unknown = Slack does not say at the moment who you are or which user groups you are in, so nothing was done. Please try again.

# Any act.
act-unknown = This button is not known here (any more). Nothing was done.
act-gone = This incident is gone: old ones are deleted after a while. Nothing was done.
act-over = This incident is resolved: its alerts no longer fire. Nothing was done.
act-store = The store does not answer, so nothing was done. Please try again.
form-late = Slack opened no form: three seconds were not enough. Please press again.
form-slow = This took too long, so nothing was done. Please try again.
form-close = Close
form-send = Send
form-comment = Comment
form-notice = Nothing was done
noted = **Note** of { $who }
said-comment = “{ $comment }”

acknowledged-already = You are on it already.
unsnoozed-already = It is not snoozed (any more).
again-begun = It is being diagnosed once more; the message changes in a moment.
again-no-playbook = No playbook knows this alert, and its labels name no pool, so there is nothing to run again.

# Show evidence.
evidence-title = Evidence
evidence-title-page = Evidence { $n }/{ $all }
evidence-next = Next page
evidence-none = There is no diagnosis yet.

# Right or wrong.
feedback-no-cause = No cause was named, so there is nothing to confirm.
feedback-thanks = Thank you, noted.
wrong-title = What was the cause?
wrong-cause = The right cause
wrong-which = Choose a cause
wrong-other = Something else
wrong-unknown = Please choose one of the causes.
wrong-note = { $cause }
wrong-note-comment = { $cause } (“{ $comment }”)

# Silence.
silence-title = Silence
silence-send = Silence
silence-what = Alertmanager will keep quiet about every alert that has **all** of these labels. Fewer labels silence more alerts.
silence-matchers = Labels that all of these alerts share
silence-whole-pool = The alerts have too many names for one silence, so no label is chosen: these labels alone silence **everything** that has them.
silence-labels = Labels that an alert must have
silence-which = Choose labels
silence-duration = How long
silence-1h = 1 hour
silence-4h = 4 hours
silence-custom = As written below
silence-custom-duration = Another duration
silence-no-label = Choose at least one label: without any, everything would be silent.
silence-changed = The alerts have changed meanwhile and no longer agree on these labels. Please open the form again.
silence-not-offered = The firing alerts do not share these labels with these values (any more): { $labels }. Please open the form again.
silence-wrong-duration = Write it like 90m, 2h or 1d: from one minute to { $longest }.
silence-others = { $n ->
    [one] These labels silence **1 alert that is not of this incident** as well. Choose more labels, or confirm it below.
   *[other] These labels silence **{ $n } alerts that are not of this incident** as well. Choose more labels, or confirm it below.
 }
silence-others-unknown = **It is not known which other alerts have these labels:** Alertmanager is unreachable ({ $error }). Confirm below to silence it all the same.
silence-confirm = Silence other alerts too
silence-confirm-others = { $n ->
    [one] I know that 1 other alert is silenced too
   *[other] I know that { $n } other alerts are silenced too
 }
silence-confirm-unknown = I know that other alerts may be silenced too
silence-no-alertmanager = No Alertmanager is configured for these alerts: see `alertmanagers` in the configuration.
silence-failed = Nothing was silenced: { $error }
silence-unsure = **It is not known whether Alertmanager created the silence:** { $error }. Check the list of silences before you request it again.
silence-note = until { $day } { $until }
silence-made = **Silenced** by { $who } until { $day } { $until }: { $matchers }
silence-made-unposted = The silence is created, but Slack did not accept the post about it.
silence-takes = { $n ->
    [one] It silences 1 alert now.
   *[other] It silences { $n } alerts now.
 }
silence-deaf = While the silence lasts, Alertmanager does not report the end of these alerts. The diagnosis continues.
silence-expire = End silence
silence-expire-sure = Alerts will be notified again.
silence-expired = { $who } ended the silence of { $matchers }.
silence-unknown = No Alertmanager knows this silence.
silence-over = This silence has ended already.
silence-list = { $n ->
    [0] Nothing is silenced.
    [one] 1 silence
   *[other] { $n } silences
 }
silence-list-unknown = **The silences are not known:** no Alertmanager answers.
silence-list-partly = **The list of silences is incomplete:** { $away } of { $of } Alertmanagers do not answer. Of the others { $n ->
    [0] nothing is silenced.
    [one] 1 silence:
   *[other] { $n } silences:
 }
silence-one = { $matchers } until { $day } { $until }, by { $by }: { $comment }
silence-more = { $n } more: see `llm-diagnose silence list`.

# Maintenance.
maintenance-list = { $n ->
    [0] No maintenance window lasts or is planned.
    [one] 1 maintenance window
   *[other] { $n } maintenance windows
 }
maintenance-one = { $labels } from { $since } to { $until }
maintenance-configured = { $line }, from the configuration
maintenance-by = { $line }, by { $who }, id { $id }
maintenance-begun = Alerts with **all** of these labels mention nobody and call no pager: { $window }
maintenance-ended = The window has ended: { $window }
maintenance-unknown = No current window made by a person has this id. Change the configuration to end a configured window.
maintenance-past = This window would be over already. Nothing was done.
maintenance-long = A window lasts at most 7 days.

# Escalate.
escalate-nobody = No escalation is configured: see `slack.escalate` in the configuration.
escalate-already = Somebody escalated this less than five minutes ago.
escalate-done = Slack delivered a message that mentions them. Nobody has confirmed yet.
escalate-waits = Slack has not yet accepted the message that mentions them. The thread will show it, or say that it failed.
escalate-failed = Nobody was called: { $error }
escalation-called = { $pager } was called.
escalation-failed = { $pager } could not be called: { $error }
escalation-begun = { $pager } is being called. The thread will say how it ended.
escalation-asked = Requested by { $who }.
escalate-asks = { $who } asks you for help: { $headline }
escalate-who = Escalate to: { $who }
escalate-bundle = All known facts as a file: { $command }

# A step was done.
step-changed = The steps changed, and this one is not among them any more: see the newest message. Nothing was done.
done-already = This step is marked as done already.

# Verify a step.
verify-no-check = This step has no check. Nothing was done.
verify-failed = It could not be verified: { $error }
verify-fixed = **Fixed**: { $title } is { $value } (expected { $wanted })
verify-fixed-bare = **Fixed**: { $title } is as expected ({ $wanted })
verify-not-yet = **Not yet**: { $title } is { $value } (expected { $wanted })
verify-not-yet-bare = **Not yet**: { $title } is not as expected ({ $wanted })
verify-cannot-tell = **Cannot tell**: { $title } has no value: { $why }
verify-step = Step: { $step }
verify-asked = Requested by { $who }; checks again after 5 and 15 minutes.
verify-alone = Checked again automatically.

# The incidents of a digest.
listed = { $n ->
    [one] 1 incident
   *[other] { $n } incidents
 }: { $firing } firing{ $critical ->
    [0] {""}
   *[other] {" "}({ $critical } critical)
 }{ $resolved ->
    [0] {""}
   *[other] , { $resolved } resolved
 }
listed-shown = { $from } to { $to } of { $n }, worst first
listed-next = Next { $n }
listed-page = All incidents
