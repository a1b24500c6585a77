### Answers to commands.

command-late = This took too long and was stopped. Prometheus may be slow: `doctor` shows it.
command-too-long = That is too long for a command. `help` shows the commands.
command-nearly = Did you mean { $command }?
command-usage = Write { $usage }
misuse-value = { $given } does not fit { $what }: { $why }
misuse-choice = { $given } is not known here: choose one of: { $choices }
misuse-unexpected = { $word } is not understood here
misuse-missing = { $what } is missing
misuse-other = This is not understood
command-progress = Checking { $target } … { $answered }/{ $asked } queries

prometheus-away = Prometheus is unreachable right now.
targets-in-part = A part of the data is missing, and there is no pool in the part that answered.
targets-none = Prometheus has no pool of an engine that is known here. `doctor` shows what it has.
targets-pick = Pick from all …
targets-none-then = There is no data at { $time }, but { $n ->
    [one] 1 pool is
   *[other] { $n } pools are
 } there now.
targets-data = There is data from { $from } to { $to }.
target-unknown = No pool or pod is called { $target }. Did you mean { $near }?
target-unnamed = No pool or pod is called { $target }. The series of the only pool have no label that names it.
target-several = { $target } may be one of { $n }. Which one?
target-missing = Which pool? A model, a namespace, a workload or a pod.
time-ahead = { $time } is in the future.
playbook-unknown = There is no playbook { $id }. { $hint }

answer-at = As of { $time }
answer-uncleaned = The answer cannot be cleaned of secrets, so it is not shown: see the log of llm-diagnose.
diagnosis-quiet = No alert threshold is exceeded here. To look deeper: { $example }

health-why = Why: { $target }

capacity-headline = Capacity of { $target }, { $n ->
    [one] 1 replica
   *[other] { $n } replicas
}
capacity-live = Live
capacity-cache = KV cache of a replica: { $value }
capacity-prompt = Mean prompt: { $value }
capacity-output = Mean output: { $value }
capacity-fits = Requests of that length that fit into a replica: { $value }
capacity-running = Requests that run on a replica now: { $value }
capacity-more = For other GPUs: { $command }

doctor-well = Everything that the service needs is there
doctor-wrong = { $n ->
    [one] 1 thing that the service needs does not work
   *[other] { $n } things that the service needs do not work
}
doctor-parts = Parts
doctor-fine = Working: { $names }
doctor-warns = { $name }: { $detail }
doctor-fails = { $name } **does not work**: { $detail }
doctor-signals = { $missing } of { $of } signals are missing, { $blind ->
    [0] no playbook is without data
    [one] 1 playbook has no data
   *[other] { $blind } playbooks have no data
}
doctor-more = Everything, and what turns it on: { $command }

incident-unreadable = The store cannot be read right now.
incident-unknown = There is no incident { $id }.
incident-several = Several incidents are called { $id }. Which one?
incident-undiagnosed = This incident has no diagnosis: no playbook knows its alerts and their labels name no pool, or it is still being made.
incident-since = since { $at }
incidents-none = There are no incidents.
home-own = Yours ({ $n })
home-own-none = Incidents that you acknowledge appear here while they are open, and for a day after they began.
home-open = Open ({ $n })
home-open-none = No incident is open.
home-taken = { $line } · { $who } is on it
home-more = … and { $n } more: `/llm-diagnose incidents`
home-many-more = … and { $n } others or more: `/llm-diagnose incidents`
home-at = As of { $at }; opened anew, this tab is read anew. `/llm-diagnose help` lists what else you may ask.
incidents-open = { $n ->
    [0] No incident is open
    [one] 1 incident is open
   *[other] { $n } incidents are open
}
incidents-today = { $n ->
    [0] No incident within the last 24 hours
    [one] 1 incident within the last 24 hours
   *[other] { $n } incidents within the last 24 hours
}
incidents-newest = { $n ->
    [0] There are no incidents
    [one] There is 1 incident
   *[other] The newest { $n } incidents
}
incidents-more = There are more; the newest are shown.

silence-by-button = Press **Silence** to choose the matchers and the duration.

explain-impact = Effect on users
explain-causes = Possible causes
explain-now = Do now
explain-lasting = So that it does not come back
explain-runbook = Runbook
playbooks-headline = { $n } playbooks
playbooks-symptoms = Symptoms: effects on users
playbooks-mechanisms = Mechanisms: links to the causes
playbooks-more = One of them: { $example }

accuracy-headline = The named root cause was right in { $figure } of simulated faults
accuracy-measured = Measured
accuracy-captures = Captures of real servers, a right cause named: { $figure }
accuracy-mechanism = Simulated faults, mechanism right: { $figure }
accuracy-three = Simulated faults, root cause among the first three: { $figure }
accuracy-wrong = Simulated faults, confident and wrong: { $figure }
accuracy-healthy = Simulated fleets that are healthy, a likely cause named: { $figure }
accuracy-here = Here, as people said
accuracy-feedback = { $yes } right, { $no } wrong
accuracy-no-feedback = There is no feedback on causes yet. Press **Right cause** or **Wrong cause** below an incident.

help-headline = Type /llm-diagnose and a pool's name to see what is wrong there, or one of these
help-commands = Commands
help-arguments = Arguments
help-unknown = There is no command { $command }.
help-threads = In an incident's thread: { $why }, { $bundle }. `here` at the end shows an answer to the channel.

form-title = Diagnose a pool
form-submit = Diagnose
form-target = Pool or pod
form-target-hint = Type a part of its name
form-at = At
form-at-hint = 14:05 (UTC), 10m ago; empty for now
form-last = Time range
form-last-hint = 30m, 2h; empty for the usual window
form-playbook = Playbook
form-playbook-hint = For what is wrong there
