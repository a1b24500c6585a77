### The pages of the service: their frame, lists, playbooks and the fleet's health.

## The frame

page-swipe = { $n } columns: swipe the table sideways to see all.
page-skip = Skip to the content
page-places = Pages
page-live = Live
page-updated = Updated at
page-away = Not live: the service does not answer. Trying again.
page-incidents = Incidents
page-playbooks = Playbooks
page-health = Fleet health

## Incidents

page-counts = { $open } open, { $all } kept
page-open = Open
page-none-open = Nothing is open
page-recent = Recent
page-found = Found
page-none-found = None.
page-looked-at = { $n ->
    [one] One incident was searched
   *[other] { $n } incidents were searched
 }, newest first. Of each, the first 20 alerts count.
page-older = Older incidents
page-empty = Incidents appear here once Alertmanager sends its first alert to `/webhook/alertmanager`. `llm-diagnose doctor` shows whether everything is connected, and `llm-diagnose diagnose` checks a pool without an alert.
page-find = Find
page-find-text = Text
page-find-cause = Cause or playbook
page-find-label = Label
page-find-state = State
page-state-any = any
page-state-open = open
page-state-resolved = resolved

## Playbooks

page-playbooks-lead = The causal rules, as data. Alerts enter at a symptom; the diagnosis walks down to the cause.
page-symptoms = Symptoms: effects on users
page-mechanisms = Mechanisms: how the fleet produces it
page-symptom = symptom
page-mechanism = mechanism
page-impact = Impact
page-met-of = Marked with the results of the diagnosis of { $incident } at
page-tree = Possible causes
page-changed-by = Changed by { $file }.
page-tree-lead = It is confirmed when these checks hold. Its causes are below, most frequent first.
page-no-causes = It has no further causes: it is a root cause.
page-fallback = only when nothing else is possible
page-open-playbook = Open this playbook
page-or = or
page-required = required
page-without-past = without a past
page-gaps = Known gaps
page-enters = Alerts that enter here
page-sources = Sources
page-playbook-now = Playbook, with the checks that hold

## Checks

page-met = met
page-not-met = not met
page-no-data = no data
page-holds = Holds
page-check = Check
page-now-value = Now
page-asked = Condition
page-replicas = Replicas

## The fleet

page-in-order = { $n ->
    [one] One check is in order or for information
   *[other] { $n } checks are in order or for information
 }
page-unseen = { $n ->
    [one] One check has no data
   *[other] { $n } checks have no data
 }

## Acts on an incident's page

page-acts = Actions
page-note = Note
page-note-what = A note for others. It appears in the incident's message, in its thread, in its timeline and in bundles, not in tickets.
page-note-empty = The note is empty: nothing was written.
page-did-acknowledge = You are on it now.
page-did-note = Your note is in the message and in the timeline below.
page-did-silence = It is silenced. The silence is in the timeline, with its end.
page-did-bundle = The bundle is being made. It appears under Bundles below when it is ready, mostly within a minute.
page-did-repeated = This form was sent before. The result is below.
page-not-done = Nothing was done
page-unsure = The result is not known
page-unsure-why = An error stopped it half-way; the log of llm-diagnose has it. Look at the incident before you try again.
page-too-often = You have sent too many forms, or all people together have. Try again in a minute.
page-back-incident = Back to the incident
page-back-list = List of incidents
page-form-elsewhere = Your browser says that another site sent this form. If you pressed on the incident's own page, a proxy in between has changed the address: let it pass `Host` on as it is, or set `public_url` of the configuration to the address that your browser shows.
page-form-strange = This form was not made for you on this page, or it is too old. Open the incident again and press there. With several replicas behind one address, all need the same `bundle.link_key_file`.
page-may-nobody = You may acknowledge, note and run again here. Silences and bundles need your name in `pages.act` of the configuration, which is empty.
page-may-not-named = You can read. Only people in `pages.act` of the configuration act here; `slack.act` is for Slack only.
page-may-program = You can read. Credentials of programs do not name a person: `pages.act` of the configuration must name `program:token` or `program:webhook`.
page-may-unknown = You can read. These pages have no login, so they do not know who you are; `pages.act: [anybody]` in the configuration lets everybody who reaches this page act, including each program on this machine.

## Why there is no page

page-closed = The pages are closed
page-closed-why = They show problems of your fleet, and the configuration does not name their readers. Set `pages.oidc`, `pages.username` and `pages.password_file`, `pages.bearer_token_file`, or `pages.proxy_header` with `pages.proxy_from`; the webhook's credentials open them as well. On a machine of your own, with `listen` on loopback, `pages.authentication: none` opens them.
page-host = Unknown host name
page-host-why = The address bar names another host than this machine, and without credentials only requests to `localhost`, a loopback address or the host of `public_url` are answered: a web page elsewhere could read everything otherwise. Open it under one of those, or set `pages.username` and `pages.password_file`.
page-refused = Wrong or missing credentials
page-refused-why = Sign in where these pages offer it, open them through your proxy, or ask the operator of this service for their user and password.
login-failed = You are not signed in
login-again = Sign in
login-away = The identity provider did not answer as expected. Try again in a minute; the log of llm-diagnose says what is wrong. Alerts, diagnoses and messages do not need it.
login-stale = This sign-in is older than ten minutes, was begun in another browser, or a second one replaced it. Begin again. With several replicas behind one address, all need the same `bundle.link_key_file`.
login-denied = The identity provider did not sign you in; the log of llm-diagnose has its reason.
login-untrusted = The identity provider's answer failed its check, so it counts for nothing; the log of llm-diagnose says which check.
login-nameless = The identity provider gave no usable name for you. The operator of this service looks at `pages.oidc.name_claim`; an e-mail address must be verified there.
login-stranger = You are signed in at the identity provider, but not among the people who may read these pages. Ask the operator of this service; `pages.oidc` names the groups and e-mail domains.
login-too-often = There were too many sign-ins from your address, or of all people together. Try again in a minute.
login-over = You are signed out
login-over-why = This browser has no access any more. Your identity provider may still know you.
page-no-incident = There is no such incident
page-no-incident-why = It never existed, or it is older than `incident.keep`. The list of incidents shows all stored ones.
page-no-playbook = There is no such playbook
page-no-playbook-why = The list of playbooks shows all loaded ones, shipped and your own.
page-nowhere = There is no such page
page-nowhere-why = The bar above links to all pages.
page-no-store = The store cannot be read
page-no-store-why = Incidents are still taken in as soon as it can be written. Load the page again; `/readyz` says what is wrong.
