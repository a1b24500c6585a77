"""Prints axe-core, the script that finds what keeps people from using a page (https://github.com/dequelabs/axe-core)."""

import sys
from importlib.resources import files

sys.stdout.write(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
