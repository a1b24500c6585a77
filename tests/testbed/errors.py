"""What the testbed says instead of a traceback."""


class TestbedError(Exception):
    """What failed, on which thing, and the way out; shown as it is."""
