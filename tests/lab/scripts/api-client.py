"""Uses the API as a program does: with a client that is generated from its own OpenAPI document.

The client comes from openapi-python-client. What it does not check, the values of real answers against the schemas, is
done with jsonschema. Prints what it read as JSON, for the test that started it.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

import httpx
import jsonschema


def generated(document, directory):
    """The package of a client of this document."""
    specification = Path(directory) / "openapi.json"
    specification.write_text(json.dumps(document), encoding="utf-8")
    command = ["openapi-python-client", "generate", "--meta", "none", "--fail-on-warning"]
    subprocess.run(
        [*command, "--path", str(specification), "--output-path", str(Path(directory) / "made")],
        check=True,
        stdout=sys.stderr,
    )
    sys.path.insert(0, directory)
    return importlib.import_module("made")


def operation(name):
    return importlib.import_module(f"made.api.default.{name}")


def next_cursor(response):
    """The cursor in a header `Link` with `rel="next"`; none on the last page."""
    link = httpx.Response(200, headers=response.headers).links.get("next")
    return link and urllib.parse.parse_qs(link["url"].lstrip("?"))["cursor"][0]


def check(document, path, method, answer):
    """Holds an answer against the schema of its operation."""
    described = document["paths"][path][method]["responses"][str(answer.status_code)]
    if "$ref" in described:
        described = document["components"]["responses"][described["$ref"].rsplit("/", 1)[1]]
    media_type = answer.headers["content-type"].split(";")[0]
    schema = {**described["content"][media_type]["schema"], "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer.json())


def main(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    plain = httpx.Client(base_url=url, headers=headers, timeout=60)
    document = plain.get("/api/v1/openapi.json").raise_for_status().json()
    with tempfile.TemporaryDirectory() as directory:
        made = generated(document, directory)
        models = importlib.import_module("made.models")
        client = made.AuthenticatedClient(base_url=url, token=token, timeout=60)
        pages, cursor = [], made.types.UNSET
        while cursor is not None:
            page = operation("list_incidents").sync_detailed(client=client, limit=2, cursor=cursor)
            assert page.status_code == 200, page.content
            pages.append([incident.id for incident in page.parsed])
            assert len(pages) < 100, pages
            cursor = next_cursor(page)
        first = operation("get_incident").sync(client=client, id=pages[0][0])
        health = operation("get_health").sync(client=client)
        question = models.DiagnosisQuestion.from_dict({"labels": {"namespace": "llm", "model_name": "m"}})
        answer = operation("diagnose").sync(client=client, body=question)
        wrong = operation("list_incidents").sync(client=client, severity="x" * 999)
    for path, method, parameters, body in [
        ("/api/v1", "get", {}, None),
        ("/api/v1/incidents", "get", {"limit": 3}, None),
        ("/api/v1/incidents", "get", {"limit": 0}, None),
        ("/api/v1/incidents/{id}", "get", {}, None),
        ("/api/v1/incidents/{id}/bundles", "get", {}, None),
        ("/api/v1/health", "get", {}, None),
        ("/api/v1/health", "get", {"detail": "full"}, None),
        ("/api/v1/diagnose", "post", {}, {"playbook": "high-ttft"}),
        ("/api/v1/diagnose", "post", {}, {}),
    ]:
        at = path.replace("{id}", pages[0][0])
        check(document, path, method, plain.request(method, at, params=parameters, json=body))
    report = {
        "pages": pages,
        "headline": first.headline,
        "alerts": len(first.alerts),
        "health": health.state.value,
        "diagnosis": answer.headline,
        "wrong": wrong.detail,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
