"""Prints how many crates each direct dependency of the program brings: those that nothing else needs, and all below it."""

import json
import os
import subprocess


def main():
    asked = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    name = {package["id"]: package["name"] for package in metadata["packages"]}
    own = {member for member in metadata["workspace_members"] if name[member] != "llm-diagnose-lab"}
    # Tests alone use what is of the kind `dev`.
    uses = {
        node["id"]: [one["pkg"] for one in node["deps"] if any(kind["kind"] != "dev" for kind in one["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }

    def below(package):
        seen, open_ = set(), [package]
        while open_:
            one = open_.pop()
            if one not in seen:
                seen.add(one)
                open_ += uses[one]
        return seen

    direct = {one for member in own for one in uses[member]} - set(metadata["workspace_members"])
    brings = {one: below(one) for one in direct}
    rows = []
    for one, crates in brings.items():
        others = set().union(*(brings[other] for other in direct if other != one))
        rows.append((len(crates - others), len(crates), name[one]))
    print("| dependency | crates that only it brings | all below it |\n|---|---|---|")
    for alone, all_, crate in sorted(rows, key=lambda row: (-row[0], row[2])):
        print(f"| `{crate}` | {alone} | {all_} |")
    print(f"\n{len(direct)} direct dependencies, {len(set().union(*brings.values()))} crates in the program and its build scripts.")


main()
