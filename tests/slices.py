"""Removes each feature that is a slice from a copy of the sources, and checks that the rest compiles: `make slices-check`.

A slice is its folders and files, and the lines elsewhere that name it: a dependency, a module, a registered command.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

COMMANDS = ["src/cli/mod.rs", "src/cli/command.rs"]
SLICES = {
    # Their tables stay in the store's schema.
    "attention": {
        "paths": ["src/store/attention.rs"],
        "wiring": ["src/chat/acts/mod.rs", "src/chat/authority.rs", "src/chat/dispatch.rs", "src/chat/plain_acts.rs",
                   "src/knowledge/incident/act.rs", "src/loops/housekeeping.rs", "src/notify/digests.rs", "src/notify/lib.rs",
                   "src/notify/messages.rs", "src/notify/posts.rs", "src/render/buttons.rs", "src/render/notes.rs",
                   "src/render/view.rs", "src/report/timeline.rs", "src/service/config.rs", "src/slack/config.rs",
                   "src/slack/lib.rs", "src/store/admission.rs", "src/store/incidents.rs", "src/store/lib.rs",
                   "src/store/maintenance.rs", "src/store/posts.rs", "src/store/replaced.rs", "src/store/retention.rs"],
        "names": r"[sS]nooz|[rR]emind|\battention\b|\bcall_again\b",
    },
    "backtest": {
        "paths": ["src/backtest", "src/cli/backtest", "benches/backtest.rs"],
        "wiring": ["Cargo.toml", *COMMANDS, "src/cli/args.rs", "src/cli/generate.rs"],
        "names": r"backtest|Backtest",
    },
    # The section `bundle:` of the configuration stays: the pages use its `margin` and `link_key_file`.
    "bundle": {
        "paths": ["src/app/bundles.rs", "src/app/doctor/bundles.rs", "src/bundle", "src/chat/commands/bundle.rs", "src/cli/bundle",
                  "src/web/api/bundles.rs", "src/web/bundles.rs", "src/web/page_bundles.rs", "benches/bundle.rs"],
        "wiring": ["Cargo.toml", "src/app/Cargo.toml", "src/app/doctor/mod.rs", "src/app/lib.rs", "src/app/prepare.rs",
                   "src/app/run.rs", "src/chat/Cargo.toml", "src/chat/authority.rs", "src/chat/command/help.rs",
                   "src/chat/command/mod.rs", "src/chat/commands/knowledge.rs", "src/chat/commands/mod.rs", "src/chat/desk.rs",
                   "src/chat/dispatch.rs", "src/chat/escalate.rs", "src/chat/intent.rs", "src/chat/reply.rs", *COMMANDS,
                   "src/cli/mcp.rs", "src/knowledge/incident/act.rs", "src/render/buttons.rs", "src/render/document.rs",
                   "src/render/notes.rs", "src/render/page/acts.rs", "src/render/report_document/answers.rs",
                   "src/render/report_document/mod.rs", "src/render/report_document/sections.rs", "src/report/timeline.rs",
                   "src/telemetry/lib.rs", "src/web/Cargo.toml", "src/web/api/mod.rs", "src/web/api/operations.rs",
                   "src/web/lib.rs", "src/web/mcp/incidents.rs", "src/web/mcp/mod.rs", "src/web/mcp_route.rs",
                   "src/web/page_acts.rs", "src/web/pages.rs", "src/web/state.rs"],
        "names": r"(?<!fluent-)(?<!summarize_)[bB]undle(?!d|\.link_key_file|\.margin)|BUNDLE|\bdownloads\b",
    },
    "budget": {
        "paths": ["src/app/doctor/slo.rs", "src/authoring/generate/budget.rs", "src/authoring/generate/budget_panels.rs",
                  "src/diagnose/chain/error_budget.rs", "src/findings/error_budget.rs", "src/knowledge/signal/budget.rs",
                  "src/render/promise.rs"],
        "wiring": ["src/app/doctor/mod.rs", "src/authoring/generate/dashboard.rs", "src/authoring/generate/mod.rs",
                   "src/authoring/generate/rules.rs", "src/diagnose/chain.rs", "src/diagnose/judge/assemble.rs",
                   "src/diagnose/observe/observe_result.rs", "src/findings/judgement.rs", "src/findings/lib.rs",
                   "src/knowledge/signal/mod.rs", "src/render/full_diagnosis.rs", "src/render/lib.rs",
                   "src/render/symptom.rs"],
        "names": r"[bB]udget|\bslo::|mod slo;|\bpromise::|mod promise;|promise\(diagnosis|burnt\(",
    },
    "capacity": {
        "paths": ["src/capacity", "src/cli/capacity", "src/chat/command/capacity.rs", "src/chat/commands/capacity.rs"],
        "wiring": ["Cargo.toml", *COMMANDS, "src/chat/Cargo.toml", "src/chat/intent.rs", "src/chat/command/mod.rs",
                   "src/chat/command/help.rs", "src/chat/commands/mod.rs"],
        "names": r"\bcapacity\b|\bCapacity",
    },
    # The words of Slack's Web API for files stay in `slack`, and one in a statement of the store.
    "charts": {
        "paths": ["src/bundle/pictures.rs", "src/chart", "src/diagnose/refine/evidence_history.rs",
                  "src/findings/evidence_history.rs", "src/notify/pictures.rs", "src/render/diagnosis_chart.rs",
                  "src/web/page_pictures.rs"],
        "wiring": ["Cargo.toml", "src/backtest/Cargo.toml", "src/backtest/page.rs", "src/bundle/Cargo.toml", "src/bundle/lib.rs",
                   "src/bundle/make.rs", "src/diagnose/lib.rs", "src/diagnose/refine/mod.rs", "src/findings/lib.rs",
                   "src/loops/diagnose.rs", "src/message/block.rs", "src/notify/Cargo.toml", "src/notify/lib.rs",
                   "src/notify/posts.rs", "src/render/Cargo.toml", "src/render/document.rs", "src/render/lib.rs",
                   "src/render/markdown/mod.rs", "src/render/page/document.rs", "src/render/report_document/mod.rs",
                   "src/render/report_document/sections.rs", "src/store/posts.rs", "src/web/Cargo.toml", "src/web/lib.rs",
                   "src/web/pages.rs", "src/web/pages_state.rs"],
        "names": r"[cC]hart|(?<!')[pP]icture|PICTURE|evidence_history|\bDrawn\b",
    },
    "init": {"paths": ["src/cli/init"], "wiring": COMMANDS, "names": r"\binit\b"},
    "load test": {
        "paths": ["src/cli/load_test"],
        "wiring": ["src/cli/args.rs", "src/cli/diagnose.rs", "src/cli/mod.rs"],
        "names": r"load_test|FailOn|fail_on",
    },
    "login": {
        "paths": ["src/service/config/oidc.rs", "src/web/login", "src/web/login_routes.rs"],
        "wiring": ["Cargo.toml", "src/app/doctor/sources.rs", "src/app/prepare.rs", "src/app/run.rs", "src/service/config.rs",
                   "src/service/config/secrets.rs", "src/service/config/server.rs", "src/web/Cargo.toml", "src/web/guard.rs",
                   "src/web/lib.rs", "src/web/state.rs"],
        "names": r"\blogin(?!s)|\bLogin\b|openidconnect|[oO]idc",
    },
    "maintenance": {
        "paths": ["src/chat/commands/maintenance.rs", "src/knowledge/incident/maintenance.rs", "src/loops/maintenance.rs",
                  "src/notify/maintenance.rs", "src/store/maintenance.rs"],
        "wiring": ["src/app/run.rs", "src/chat/command/help.rs", "src/chat/command/mod.rs", "src/chat/commands/mod.rs",
                   "src/chat/intent.rs", "src/knowledge/incident/mod.rs", "src/loops/housekeeping.rs", "src/loops/lib.rs",
                   "src/notify/lib.rs", "src/notify/messages.rs", "src/notify/pager/mod.rs", "src/render/incident_message.rs", "src/render/notes.rs",
                   "src/render/view.rs", "src/service/config.rs", "src/store/lib.rs"],
        "names": r"[mM]aintenance|MAINTENANCE",
    },
    "postmortem": {
        "paths": ["playbooks/tickets/postmortem.yaml", "src/chat/commands/postmortem.rs", "src/cli/postmortem.rs",
                  "src/service/postmortem.rs"],
        "wiring": [*COMMANDS, "src/chat/command/help.rs", "src/chat/command/mod.rs", "src/chat/commands/mod.rs",
                   "src/chat/intent.rs", "src/service/lib.rs"],
        "names": r"[pP]ostmortem",
    },
    "selftest": {
        "paths": ["src/app/selftest.rs", "src/cli/selftest.rs"],
        "wiring": ["src/app/lib.rs", *COMMANDS],
        "names": r"\bselftest\b",
    },
    "studies": {
        "paths": ["playbooks/tables/incident-studies.yaml", "src/app/doctor/incident_studies.rs",
                  "src/findings/incident_studies.rs", "src/render/incident_studies.rs"],
        "wiring": ["src/app/doctor/mod.rs", "src/authoring/check/tables.rs", "src/authoring/generate/schema.rs",
                   "src/authoring/generate/table.rs", "src/cli/args.rs", "src/cli/doctor.rs", "src/cli/init/mod.rs",
                   "src/findings/lib.rs", "src/knowledge/playbook/load.rs",
                   "src/knowledge/playbook/mod.rs", "src/knowledge/playbook/tables.rs", "src/render/lib.rs"],
        "names": r"[sS]tudies|IncidentClass|args\.coverage|coverage: (bool|false)",
    },
    "tenants": {
        "paths": ["src/facts/tenants.rs", "src/render/report_document/tenants.rs"],
        "wiring": ["src/authoring/check/facts.rs", "src/facts/collect.rs", "src/facts/lib.rs", "src/findings/facts/mod.rs",
                   "src/knowledge/playbook/tickets.rs", "src/render/document.rs", "src/render/markdown/ticket.rs", "src/render/report_document/answers.rs",
                   "src/render/report_document/mod.rs", "src/report/answers.rs", "src/report/lib.rs"],
        "names": r"[tT]enant",
    },
    "traces": {
        "paths": ["src/telemetry/otlp.rs"],
        "wiring": ["src/telemetry/lib.rs", "src/cli/serve.rs"],
        "names": r"\botlp\b|\btraces\b",
    },
    "watchdog": {
        "paths": ["src/app/doctor/watchdog.rs", "src/knowledge/alert/watchdog.rs", "src/service/config/watchdog.rs",
                  "src/service/watchdog.rs", "src/store/watchdogs.rs"],
        "wiring": ["src/app/doctor/mod.rs", "src/knowledge/alert.rs", "src/knowledge/alert/own.rs", "src/loops/housekeeping.rs",
                   "src/render/own_alert.rs", "src/service/admission.rs", "src/service/config.rs", "src/service/lib.rs",
                   "src/service/readiness.rs", "src/store/lib.rs", "src/telemetry/lib.rs", "src/web/webhook.rs"],
        "names": r"[wW]atchdog|AlertmanagerSilent|always-firing",
    },
    "weekly": {
        "paths": ["src/cli/weekly.rs", "src/knowledge/incident/week.rs", "src/loops/weekly.rs", "src/notify/weekly.rs",
                  "src/render/weekly.rs", "src/report/weekly.rs", "src/slack/weekly.rs", "src/store/week.rs",
                  "src/store/weekly.rs"],
        "wiring": ["src/app/doctor/slack.rs", *COMMANDS, "src/knowledge/incident/mod.rs", "src/loops/housekeeping.rs",
                   "src/loops/lib.rs", "src/notify/history_search.rs", "src/notify/lib.rs", "src/notify/outgoing.rs",
                   "src/notify/queue.rs", "src/render/lib.rs", "src/report/lib.rs", "src/service/config.rs",
                   "src/slack/config.rs", "src/slack/lib.rs", "src/store/duplicates.rs", "src/store/lib.rs",
                   "src/store/postpone.rs", "src/store/refusals.rs", "src/store/time.rs", "src/store/unreadable.rs",
                   "src/store/work_queue.rs"],
        "names": r"\b[wW]eek\b|[wW]eekl(y|ies)|WEEKL|[dD]aily|Summary(Post|Period|Moments)",
    },
}


def copy(tree):
    """Copies the tracked files. Cargo compiles again what is newer than its result: the files that a slice changes."""
    shutil.rmtree(tree, ignore_errors=True)
    for name in subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines():
        if Path(name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, tree / name)
    for slice in SLICES.values():
        for name in slice["wiring"]:
            (tree / name).touch()


def without(text, names):
    """Returns the text without the lines that have a name, what such a line opens, and the comments and attributes before."""
    kept, removed, depth = [], 0, 0
    members = re.compile(r", \"src/\w+\"|\"src/\w+\", ")
    for line in text.splitlines(keepends=True):
        if line.startswith("members"):
            kept.append(members.sub(lambda one: "" if re.search(names, one[0]) else one[0], line))
            continue
        if depth <= 0 and (line.lstrip().startswith("//") or not re.search(names, line)):
            kept.append(line)
            continue
        while depth <= 0 and kept and re.match(r"\s*(//[^!]|#\[)", kept[-1]):
            kept.pop()
            removed += 1
        depth = max(depth, 0) + sum(line.count(one) for one in "([{") - sum(line.count(one) for one in ")]}")
        removed += 1
    return "".join(kept), removed


def remove(tree, slice):
    """Removes a slice; returns its lines in its own files, and those elsewhere."""
    own = wired = 0
    for name in slice["paths"]:
        path = tree / name
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        own += sum(len(file.read_text().splitlines()) for file in files)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in slice["wiring"]:
        text, removed = without((tree / name).read_text(), slice["names"])
        if name == "Cargo.toml":
            # A benchmark of the slice is a table of its own.
            text = re.sub(r"\[\[bench\]\]\nharness = false\n\n?", "", text)
        (tree / name).write_text(text)
        wired += removed
    return own, wired


def main():
    tree = Path("target/slices/tree").absolute()
    failed = []
    for name in sys.argv[1:] or SLICES:
        copy(tree)
        own, wired = remove(tree, SLICES[name])
        check = ["cargo", "check", "--offline", "--quiet", "--bin", "llm-diagnose", "--target-dir", str(Path("target").absolute())]
        ended = subprocess.run(check, cwd=tree)
        print(f"{name}: {own} lines of its own, {wired} elsewhere: {'compiles' if ended.returncode == 0 else 'FAILS'} without it")
        failed += [name] if ended.returncode else []
    # Otherwise Cargo takes its results for those of the sources.
    shutil.rmtree(tree)
    return 1 if failed else 0


sys.exit(main())
