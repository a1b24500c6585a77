"""Prints how many crates each direct dependency of the program brings: those that nothing else needs, and all below it."""

import os
import re
import subprocess


def edges():
    """Returns what each package of the program uses, tests left out."""
    asked = [os.environ.get("CARGO", "cargo"), "tree", "--locked", "--package=llm-diagnose", "--edges=no-dev",
             "--target=x86_64-unknown-linux-gnu", "--prefix=depth"]
    tree = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    uses, path = {}, []
    for line in filter(None, tree.splitlines()):
        depth, package = re.match(r"(\d+)(\S+ \S+(?: \(/.*?\))?)", line).groups()
        del path[int(depth):]
        uses.setdefault(package, set())
        if path:
            uses[path[-1]].add(package)
        path.append(package)
    return uses


def main():
    uses = edges()
    # A crate of the workspace has its path behind its version.
    own = {package for package in uses if "(/" in package}

    def below(package):
        seen, waiting = set(), [package]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += uses[one]
        return seen

    direct = {one for member in own for one in uses[member]} - own
    brings = {one: below(one) for one in direct}
    rows = []
    for one, crates in brings.items():
        others = set().union(*(brings[other] for other in direct if other != one))
        rows.append((len(crates - others), len(crates), one.split()[0]))
    print("| dependency | crates that only it brings | all below it |\n|---|---|---|")
    for alone, together, crate in sorted(rows, key=lambda row: (-row[0], row[2])):
        print(f"| `{crate}` | {alone} | {together} |")
    print(f"\n{len(direct)} direct dependencies, {len(set().union(*brings.values()))} crates in the program and its build scripts.")


main()
