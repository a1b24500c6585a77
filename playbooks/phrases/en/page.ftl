### The pages of the service: their frame, lists, playbooks and the fleet's health.

## The frame

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

page-playbooks-lead = What may explain a symptom, as data. Alerts enter at a symptom; the diagnosis walks down to the cause.
page-symptoms = Symptoms: what users feel
page-mechanisms = Mechanisms: how the fleet produces it
page-symptom = symptom
page-mechanism = mechanism
page-impact = Impact
page-met-of = Marked with what the diagnosis of { $incident } found at
page-tree = What may explain it
page-changed-by = Changed by { $file }.
page-tree-lead = It is there when these checks hold. Below stand the causes, most frequent first.
page-no-causes = Nothing below it: it is a cause itself.
page-fallback = only when nothing else is possible
page-open-playbook = Open this playbook
page-or = or
page-required = required
page-without-past = only where there is no past
page-gaps = Known gaps
page-enters = Alerts that enter here
page-sources = Sources
page-playbook-now = Playbook, with what is met

## Checks

page-met = met
page-not-met = not met
page-no-data = no data
page-not-checked = not checked
page-holds = Holds
page-check = Check
page-now-value = Now
page-asked = Condition
page-limits = Thresholds
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
page-no-pool = No serving engine was found in Prometheus. `llm-diagnose doctor` shows what is missing.

## Why there is no page

page-closed = The pages are closed
page-closed-why = They show what goes wrong and where, and nothing says who may read them. Set `pages.username` and `pages.password_file`, `pages.bearer_token_file`, or `pages.proxy_header` with `pages.proxy_from`; the webhook's credentials open them as well. On a machine of your own, with `listen` on loopback, `pages.authentication: none` opens them.
page-host = Unknown host name
page-host-why = The address bar names another host than this machine, and without credentials only requests to `localhost`, a loopback address or the host of `public_url` are answered: a web page elsewhere could read everything otherwise. Open it under one of those, or set `pages.username` and `pages.password_file`.
page-refused = Wrong or missing credentials
page-refused-why = Ask whoever runs this service for the user and password of the pages, or open them through your proxy.
page-no-incident = There is no such incident
page-no-incident-why = It was never there, or it is older than what is kept (`incident.keep`). The list of incidents has all that are.
page-no-playbook = There is no such playbook
page-no-playbook-why = The list of playbooks has all that are loaded, shipped ones and your own.
page-nowhere = There is no such page
page-nowhere-why = The bar above leads to all that there are.
page-no-store = The store cannot be read
page-no-store-why = Incidents are still taken in as soon as it can be written. Load the page again; `/readyz` says what is wrong.
