"""Holds an OpenAPI document against the specification of its version; silent when it is valid."""

import json
import sys

import openapi_spec_validator


def main(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    validator = openapi_spec_validator.OpenAPIV31SpecValidator(document)
    wrong = [f"{path}: {'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors()]
    if not document["openapi"].startswith("3.1."):
        wrong.append(f"{path}: openapi: {document['openapi']}, expected 3.1")
    for line in wrong:
        print(line[:500], file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
