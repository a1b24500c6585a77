"""Renders the chart into the manifests of config/kubernetes*, and checks that both are the same and what Kubernetes takes.

The chart is the source. `render` writes the manifests that are rendered from it; `check` compares them, what `kubectl
kustomize` makes of their directories, and the chart object by object.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import jsonschema
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "config/helm/llm-diagnose"
NAMESPACE = "monitoring"
REGISTRY = "docker-registry"
SHARED = ["replicas=2", "config.database.url_file=/etc/llm-diagnose/secrets/database-url"]
OPERATOR = ["serviceMonitor.enabled=true", "prometheusRule.enabled=true", "alertmanagerConfig.enabled=true"]
NO_USER = ["config.webhook.username=null", "config.webhook.password_file=null"]
LOGS = ["logs.namespaces={llm}", "logs.everywhere=true"]
# Each file with its template and what is set; last, the object to take where a template makes several.
RENDERED = {
    "kubernetes/deployment.yaml": ("deployment", [], None),
    "kubernetes/rbac.yaml": ("rbac", [], None),
    "kubernetes/service.yaml": ("service", [], None),
    "kubernetes/pvc.yaml": ("pvc", [], None),
    "kubernetes/networkpolicy.yaml": ("networkpolicy", [], None),
    "kubernetes/logs.yaml": ("logs", [r"logs.namespaces[0]="], None),
    "kubernetes/logs-everywhere.yaml": ("logs-everywhere", ["logs.everywhere=true"], None),
    "kubernetes-replicas/pdb.yaml": ("pdb", SHARED, None),
    "kubernetes-operator/servicemonitor.yaml": ("servicemonitor", OPERATOR, None),
    "kubernetes-operator/alertmanagerconfig.yaml": ("alertmanagerconfig", OPERATOR, None),
    "kubernetes-operator/llm-diagnose-self.prometheusrule.yaml": ("prometheusrule", OPERATOR, "llm-diagnose-self"),
}
HEAD = "# Rendered from config/helm/llm-diagnose by `make generate`: change it there.\n"
# The oldest that Chart.yaml names, and the newest that the schemas know.
VERSIONS = ["1.25", "1.37"]
# `kubectl apply` writes the object into an annotation, and all annotations have 256 KiB:
# https://kubernetes.io/docs/reference/using-api/server-side-apply/. prometheus-operator takes 512 KiB.
OBJECT_BYTES = 256 * 1024


class Loader(yaml.CSafeLoader):
    """YAML 1.2's scalars, as Kubernetes reads them: `=` is a text."""


Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def made(*command):
    status, out, err = run(*command)
    if status != 0:
        sys.exit(f"kubernetes: {' '.join(map(str, command))}: {err.strip()}")
    return out


def helm_template(settings):
    return [os.environ["HELM"], "template", "llm-diagnose", str(CHART), "--namespace", NAMESPACE, *sets(settings)]


def sets(settings):
    return [argument for one in settings for argument in ("--set", one)]


def template(settings, only=None):
    return made(*helm_template(settings), *(["--show-only", f"templates/{only}.yaml"] if only else []))


def kustomized(directory):
    return made(os.environ["KUBECTL"], "kustomize", str(ROOT / "config" / directory))


def documents(text):
    return [one for one in yaml.load_all(text, Loader) if one]


def rendered(only, settings, name):
    """The text of a template's objects, with its comments."""
    parts = re.split(r"(?m)^---\n# Source: .*\n", template(settings, only))
    parts = [part.strip("\n") for part in parts if part.strip()]
    if name:
        parts = [part for part in parts if f"\n  name: {name}\n" in part]
    return HEAD + "\n---\n".join(parts) + "\n"


def objects(text):
    """Objects by kind and name, without what only one of both tools writes: the namespace, how a configuration is laid out."""
    found = {}
    for one in documents(text):
        metadata = one["metadata"]
        key = (one["kind"], metadata["name"], metadata.get("namespace", NAMESPACE))
        metadata.pop("namespace", None)
        if one["kind"] in ("ClusterRole", "ClusterRoleBinding"):
            key = key[:2]
        if one["kind"] == "ConfigMap":
            metadata.pop("labels", None)
            one["data"] = {name: yaml.load(value, Loader) for name, value in one["data"].items()}
        if key in found:
            sys.exit(f"kubernetes: {key} stands twice")
        found[key] = one
    return found


def differ(chart, manifests, at):
    """The paths at which both differ, with both values. The order of entries that have names says nothing."""
    if isinstance(chart, dict) and isinstance(manifests, dict):
        for key in sorted(chart.keys() | manifests.keys()):
            yield from differ(chart.get(key), manifests.get(key), f"{at}.{key}")
    elif isinstance(chart, list) and isinstance(manifests, list) and all(named(one) for one in chart + manifests):
        yield from differ(*({one["name"]: one for one in entries} for entries in (chart, manifests)), at)
    elif chart != manifests:
        yield f"{at}: {json.dumps(chart)[:300]} in the chart, {json.dumps(manifests)[:300]} in the manifests"


def named(entry):
    return isinstance(entry, dict) and "name" in entry


def differences(chart, manifests, what):
    for key in sorted(chart.keys() | manifests.keys()):
        yield from differ(chart.get(key), manifests.get(key), f"{what}: {'/'.join(key)}")


def strict(schema):
    """Refuses the fields that a schema does not have, where the API server drops them in silence."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    new = {key: strict(value) for key, value in schema.items()}
    keeps = "additionalProperties" in new or schema.get("x-kubernetes-preserve-unknown-fields")
    return new if keeps or "properties" not in new or schema.get("type") != "object" else new | {"additionalProperties": False}


def refusals(texts):
    """What Kubernetes or prometheus-operator would refuse."""
    operators = json.loads((ROOT / "tests/fixtures/kubernetes/prometheus-operator.json").read_text())["schemas"]
    seen = set()
    for one in (one for text in texts for one in documents(text)):
        kind, name = f"{one['apiVersion']}/{one['kind']}", one["metadata"]["name"]
        if len(one["metadata"].get("labels", {})) == 0 and one["kind"] != "ConfigMap":
            yield f"{kind} {name} has no labels"
        if kind in operators:
            for error in jsonschema.Draft7Validator(strict(operators[kind])).iter_errors(one):
                yield f"{kind} {name}: {error.json_path}: {error.message[:500]}"
            if (size := len(json.dumps(one))) > OBJECT_BYTES:
                yield f"{kind} {name} has {size} bytes, and `kubectl apply` takes {OBJECT_BYTES}"
            seen.add(kind)
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{kind} {name}, Kubernetes {version}: {error.message[:500]}"
    if unused := operators.keys() - seen:
        yield f"no object was seen of {sorted(unused)}"


def as_alertmanager(spec):
    """An AlertmanagerConfig's route and inhibit rules in Alertmanager's own notation."""
    text = lambda one: f'{one["name"]}{one["matchType"]}"{one["value"]}"'
    snake = lambda name: re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name).replace("_match", "_matchers")
    plain = lambda one: {
        snake(key): [text(match) for match in value] if "atch" in key else value for key, value in one.items()
    }
    return plain(spec["route"]), [plain(rule) for rule in spec.get("inhibitRules", [])]


def other_routes():
    """Where the AlertmanagerConfigs say something else than the file for Alertmanager itself."""
    own = yaml.load((ROOT / "config/alertmanager/llm-diagnose.yaml").read_text(), Loader)
    configs = documents(template(["alertmanagerConfig.enabled=true", "alertmanagerConfig.watchdog=true"], "alertmanagerconfig"))
    routes, rules = zip(*(as_alertmanager(one["spec"]) for one in configs))
    said = {"inhibit_rules": sum(rules, []), "routes": {one["receiver"]: one for one in routes}}
    wanted = {"inhibit_rules": own["inhibit_rules"], "routes": {one["receiver"]: one for one in own["route"]["routes"]}}
    yield from differ(said, wanted, "AlertmanagerConfig (the manifests are config/alertmanager/llm-diagnose.yaml)")


def misuse():
    """Settings that the chart must refuse, with the word that its error has."""
    cases = {
        "config.database.url_file": ["replicas=2"],
        "repliacs": ["repliacs=1"],
        "replicas": ["replicas=0"],
        "pullpolicy": ["image.pullpolicy=Always"],
        "pullPolicy": ["image.pullPolicy=Sometimes"],
        "slak": ["config.slak.channel=x"],
        "sise": ["persistence.sise=2Gi"],
        "namespace": ["logs.namespace={llm}"],
        "limit": ["resources.limit.memory=1Gi"],
        "effect": ["tolerations[0].effect=NoShedule"],
        "podselector": ["networkPolicy.from[0].podselector.matchLabels.app=x"],
        "nodeaffinity": ["affinity.nodeaffinity.x=1"],
        "imagePullSecrets": ["imagePullSecrets[0].nam=x"],
        "enabled": ["serviceMonitor.enabled=yes"],
        "annotations": ["annotations.port=9098"],
        "digest": ["image.digest=abc"],
        "there is no `vlm`": ["prometheusRule.enabled=true", "prometheusRule.engines={vlm}"],
        "it sends what they name": ["alertmanagerConfig.enabled=true", *NO_USER],
    }
    for word, settings in cases.items():
        status, _, err = run(*helm_template(settings))
        if status == 0 or word not in err:
            yield f"the chart takes {settings}, or does not say why not: {err.strip()[:500]}"
    schema = json.loads((CHART / "values.schema.json").read_text())
    example = yaml.load((ROOT / "config/llm-diagnose.example.yaml").read_text(), Loader)
    if apart := example.keys() ^ set(schema["properties"]["config"]["propertyNames"]["enum"]):
        yield f"values.schema.json has other keys under `config` than the example: {sorted(apart)}"


def use():
    """Settings that the chart must take."""
    for settings in (
        ["config.pages.oidc.issuer=https://id.example.org", "config.pages.oidc.client_id=x", "config.public_url=https://t.example.org"],
        ["resources.limits.cpu=2", "resources.requests.memory=128Mi", "image.digest=sha256:" + "0" * 64],
        ["tolerations[0].key=gpu", "tolerations[0].operator=Exists", "tolerations[0].effect=NoSchedule", "nodeSelector.pool=ops"],
        ["networkPolicy.from[0].namespaceSelector.matchLabels.team=ops", "imagePullSecrets[0].name=login", "global.region=eu"],
        ["affinity.nodeAffinity.x=1", "priorityClassName=high", "annotations.team=ops", "persistence.storageClass=fast"],
    ):
        status, _, err = run(*helm_template(settings))
        if status != 0:
            yield f"the chart refuses {settings}: {err.strip()[:500]}"


def as_artifact():
    """Where the chart from an OCI registry, Debian's docker-registry on loopback, renders something else than its folder."""
    with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0)) as free:
        place = pathlib.Path(directory)
        address = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        storage = {"filesystem": {"rootdirectory": str(place / "store")}}
        (place / "registry.yaml").write_text(json.dumps({"version": 0.1, "storage": storage, "http": {"addr": address}}))
        log = (place / "log").open("w")
        registry = subprocess.Popen([REGISTRY, "serve", place / "registry.yaml"], stdout=log, stderr=log)
        try:
            yield from from_registry(registry, address, place)
        finally:
            registry.terminate()
            registry.wait(timeout=20)
            log.close()


def from_registry(registry, address, place):
    until = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
            break
        except OSError:
            if registry.poll() is not None or time.monotonic() > until:
                sys.exit(f"kubernetes: docker-registry does not start: {(place / 'log').read_text()[-500:]}")
            time.sleep(0.05)
    made("make", "--silent", "chart-push", f"HELM={os.environ['HELM']}", f"CHARTS=oci://{address}/charts", "HELM_PUSH=--plain-http",
         f"CHART_DIR={place}")
    version = yaml.load((CHART / "Chart.yaml").read_text(), Loader)["version"]
    artifact = [f"oci://{address}/charts/llm-diagnose", "--version", version, "--plain-http"]
    made(os.environ["HELM"], "pull", *artifact, "--untar", "--untardir", str(place / "pulled"))
    for chart in ([str(place / "pulled" / "llm-diagnose")], artifact):
        command = [os.environ["HELM"], "template", "llm-diagnose", *chart, "--namespace", NAMESPACE]
        if made(*command, *sets(SHARED + OPERATOR)) != template(SHARED + OPERATOR):
            yield f"{chart[0]} renders other manifests than config/helm"


def other_versions():
    """Where the chart has another version than the program, whose image it names."""
    version = re.search('(?m)^version = "(.*)"$', (ROOT / "Cargo.toml").read_text())[1]
    chart = yaml.load((CHART / "Chart.yaml").read_text(), Loader)
    for key in ("version", "appVersion"):
        if chart[key] != version:
            yield f"Chart.yaml has {key} {chart[key]}, and Cargo.toml {version}"


def check():
    for file, (only, settings, name) in RENDERED.items():
        if (ROOT / "config" / file).read_text() != rendered(only, settings, name):
            yield f"config/{file} is stale: run `make generate`"
    single, replicas, everything = template([]), template(SHARED), template([*OPERATOR, *LOGS])
    yield from differences(objects(single), objects(kustomized("kubernetes")), "config/kubernetes")
    yield from differences(objects(replicas), objects(kustomized("kubernetes-replicas")), "config/kubernetes-replicas")
    plain = objects(template(LOGS))
    added = {key: one for key, one in objects(everything).items() if key not in plain}
    yield from differences(added, objects(kustomized("kubernetes-operator")), "config/kubernetes-operator")
    ways = [[], [*NO_USER, "config.webhook.bearer_token_file=/token"], [*NO_USER, "config.webhook.authentication=none"]]
    receivers = [template(["alertmanagerConfig.enabled=true", "alertmanagerConfig.watchdog=true", *way]) for way in ways]
    yield from refusals([single, replicas, everything, *receivers])
    yield from other_routes()
    yield from misuse()
    yield from use()
    yield from as_artifact()
    yield from other_versions()
    status, out, err = run(os.environ["HELM"], "lint", "--strict", str(CHART))
    if status != 0:
        yield f"helm lint: {out}{err}"


def main():
    if sys.argv[1] == "render":
        for file, (only, settings, name) in RENDERED.items():
            path = ROOT / "config" / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(rendered(only, settings, name))
        return
    if wrong := list(check()):
        sys.exit("\n".join(f"kubernetes: {one}" for one in wrong))


if __name__ == "__main__":
    main()
