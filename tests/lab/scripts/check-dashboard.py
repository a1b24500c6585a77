"""Whether Grafana knows every key of a dashboard, by the models that Grafana publishes of its own schema.

Loads the file with the grafana-foundation-sdk, writes it back, and compares: a key that did not come back is unknown to
Grafana, which drops it without a word. Values are held against the models' types, units against Grafana's list.
"""

import enum
import functools
import json
import sys
import types
import typing

from grafana_foundation_sdk.cog import plugins, runtime
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units

# Read by Grafana's data source for Prometheus; the published model of an annotation has no data source's keys.
# https://github.com/grafana/grafana/blob/main/packages/grafana-prometheus/src/datasource.ts
ANNOTATION_FORMATS = {"titleFormat", "textFormat", "tagKeys"}
UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("_")}


@functools.cache
def hints(cls):
    return typing.get_type_hints(cls)


def mistyped(value, hint, at):
    """The places below `value` that are not of the type `hint`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        attempts = [list(mistyped(value, one, at)) for one in arguments]
        if not any(found == [] for found in attempts):
            # Of several types that do not fit, the one that got farthest tells most.
            yield from max(attempts, key=lambda found: found[0].index(":") if found else 0)
    elif origin is typing.Literal:
        if value not in arguments:
            yield f"{at}: {value!r} is none of {', '.join(map(repr, arguments))}"
    elif origin is list:
        if not isinstance(value, list):
            yield f"{at}: expected a list, got {value!r}"
            return
        for i, item in enumerate(value):
            yield from mistyped(item, arguments[0], f"{at}[{i}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{at}: expected an object, got {value!r}"
            return
        for key, item in value.items():
            yield from mistyped(item, arguments[1], f"{at}.{key}")
    elif hasattr(value, "to_json"):
        if isinstance(hint, type) and hint is not object and not isinstance(value, hint):
            yield f"{at}: expected {hint.__name__}, got {type(value).__name__}"
            return
        for name, inner in hints(type(value)).items():
            if hasattr(value, name):
                yield from mistyped(getattr(value, name), inner, f"{at}.{name}")
    elif hint in (object, typing.Any):
        return
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in [member.value for member in hint]:
            yield f"{at}: {value!r} is none of {', '.join(repr(member.value) for member in hint)}"
    elif hasattr(hint, "from_json") and isinstance(value, dict):
        # The model left it as it was.
        loaded = hint.from_json(value)
        yield from mistyped(loaded, hint, at)
        yield from dropped(value, encoded(loaded), at)
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield f"{at}: expected a number, got {value!r}"
    elif hint is int:
        if isinstance(value, bool) or not isinstance(value, int):
            yield f"{at}: expected a whole number, got {value!r}"
    elif not isinstance(value, hint):
        yield f"{at}: expected {hint.__name__}, got {value!r}"


def encoded(value):
    return json.loads(json.dumps(value, cls=JSONEncoder))


def dropped(ours, theirs, at):
    """The places in what we wrote that did not come back."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from dropped(value, theirs[key], f"{at}.{key}")
            elif not (key in ANNOTATION_FORMATS and at.startswith(".annotations.list[") and at.endswith("]")):
                yield f"{at}.{key}: Grafana's schema does not know this key"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (own, back) in enumerate(zip(ours, theirs)):
            yield from dropped(own, back, f"{at}[{i}]")
    elif ours != theirs:
        yield f"{at}: {ours!r} came back as {theirs!r}"


def panels(of):
    for panel in of.get("panels", []):
        yield panel
        yield from panels(panel)


def unmodelled(ours):
    """What the models would take as it is: unknown panels, data sources and units, and panels on top of each other."""
    taken, ids = set(), set()
    for panel in panels(ours):
        title = panel["title"]
        if panel["id"] in ids:
            yield f"panel {title}: a second one with the id {panel['id']}"
        ids.add(panel["id"])
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        if cells & taken or at["x"] + at["w"] > 24:
            yield f"panel {title}: stands on another one or beside the grid at {at}"
        taken |= cells
        if panel["type"] == "row":
            continue
        if runtime.panelcfg_config(panel["type"]) is None:
            yield f"panel {title}: Grafana has no panel of type {panel['type']!r}"
        for target in panel["targets"]:
            if isinstance(runtime.dataquery_from_json(target, ""), runtime.UnknownDataquery):
                yield f"panel {title}: {target.get('datasource')} is no known data source"
        unit = panel["fieldConfig"]["defaults"]["unit"]
        if unit not in UNITS:
            yield f"panel {title}: Grafana has no unit {unit!r}"


def main(path):
    plugins.register_default_plugins()
    with open(path, encoding="utf-8") as file:
        ours = json.load(file)
    loaded = model.Dashboard.from_json(ours)
    # What is of the right shape can be asked further.
    wrong = [*mistyped(loaded, model.Dashboard, ""), *dropped(ours, encoded(loaded), "")] or unmodelled(ours)
    wrong = list(dict.fromkeys(wrong))
    for line in wrong:
        print(f"{path}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
